package cluster

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
)

// A bolt file is a tree of buckets, each a tree of pages, in the machine's byte order, little-endian on all that this runs on. Page n begins
// at byte n times the page size, and goes on over as many more as its head says. Pages 0 and 1 hold the roots, of one commit each.
//
//	page    0 u64 its number          8 u16 kind            10 u16 elements     12 u32 further pages
//	branch  0 u32 position of key     4 u32 length of key    8 u64 page below; position from the element's first byte
//	leaf    0 u32 1: a bucket         4 u32 position of key  8 u32 length of key  12 u32 length of value, which follows the key
//	bucket  0 u64 root page, 0: the one that follows at 16   8 u64 sequence
//	meta   24 u32 page size          32 u64 root page of the bucket of buckets   56 u64 number of pages   64 u64 number of the commit
const (
	boltPageHead    = 16
	boltElement     = 16
	boltBucketHead  = 16
	boltBranchPage  = 0x01
	boltLeafPage    = 0x02
	boltBucketEntry = 0x01
)

// boltPages is the content of a bolt file that is to be checked without trusting anything in it.
type boltPages struct {
	b     []byte // the file up to its last page in use
	size  uint64 // of a page
	seen  map[uint64]bool
	check func(key []byte, bucket bool, value []byte) error // is given each element of a leaf, in order
}

// checkPages walks all pages of the commit in force, and refuses a file whose pages do not form trees with keys in order, every byte of which
// lies within its page: bolt looks at them in a goroutine of its own, where a read outside the file is the end of the process.
// It reads no value that is not a bucket: entries and votes have checksums of ours.
func checkPages(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map %s: %w", path, err)
	}
	err = recovered(func() error {
		p, root, err := newBoltPages(b)
		if err != nil {
			return err
		}
		return p.buckets(root)
	})
	if merr := syscall.Munmap(b); merr != nil && err == nil {
		err = fmt.Errorf("unmap %s: %w", path, merr)
	}
	return err
}

// newBoltPages finds the root of the commit in force. Both metas are whole: checkMetas saw to that.
func newBoltPages(b []byte) (p *boltPages, root uint64, err error) {
	size := uint64(binary.LittleEndian.Uint32(b[boltMetaHead+8:]))
	if size < boltMetaEnd || 2*size > uint64(len(b)) {
		return nil, 0, fmt.Errorf("%w: pages of %d bytes in a file of %d", errBolt, size, len(b))
	}
	meta := b
	if other := b[size:]; binary.LittleEndian.Uint64(other[64:]) > binary.LittleEndian.Uint64(meta[64:]) {
		meta = other
	}
	root, end := binary.LittleEndian.Uint64(meta[32:]), binary.LittleEndian.Uint64(meta[56:])
	if end > uint64(len(b))/size {
		return nil, 0, fmt.Errorf("%w: the file has %d bytes of %d pages of %d", errBolt, len(b), end, size)
	}
	return &boltPages{b: b[:end*size], size: size, seen: make(map[uint64]bool)}, root, nil
}

// buckets walks the bucket of buckets, and each of them.
func (p *boltPages) buckets(root uint64) error {
	type bucket struct {
		name string
		head []byte
	}
	var list []bucket
	p.check = func(key []byte, isBucket bool, value []byte) error {
		if !isBucket || bucketChecks[string(key)] == nil || len(value) < boltBucketHead {
			return fmt.Errorf("%w: there is an entry %q beside the buckets", errBolt, key)
		}
		list = append(list, bucket{string(key), value})
		return nil
	}
	if err := p.walk(root, nil, nil); err != nil {
		return err
	}
	for _, b := range list {
		follows := bucketChecks[b.name]
		var last []byte
		p.check = func(key []byte, isBucket bool, _ []byte) error {
			if isBucket || !follows(last, key) {
				return fmt.Errorf("%w: bucket %s: key %x comes after %x", errBolt, b.name, key, last)
			}
			last = key
			return nil
		}
		if err := p.bucket(b.head); err != nil {
			return err
		}
	}
	return nil
}

func (p *boltPages) bucket(head []byte) error {
	if root := binary.LittleEndian.Uint64(head); root != 0 {
		return p.walk(root, nil, nil)
	}
	page := head[boltBucketHead:]
	if len(page) < boltPageHead || binary.LittleEndian.Uint16(page[8:]) != boltLeafPage {
		return fmt.Errorf("%w: a bucket has no page", errBolt)
	}
	return p.leaf(page, nil, nil)
}

// walk checks a page and all below it, whose keys are from low on and before high, if these are not nil.
func (p *boltPages) walk(number uint64, low, high []byte) error {
	page, err := p.page(number)
	if err != nil {
		return err
	}
	switch binary.LittleEndian.Uint16(page[8:]) {
	case boltBranchPage:
		err = p.branch(page, low, high)
	case boltLeafPage:
		err = p.leaf(page, low, high)
	default:
		err = fmt.Errorf("%w: neither branch nor leaf", errBolt)
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", number, err)
	}
	return nil
}

// page is a page with those that it goes on over. Each is in one place of one tree only, so no walk is endless.
func (p *boltPages) page(number uint64) ([]byte, error) {
	end := uint64(len(p.b)) / p.size
	if number < 2 || number >= end {
		return nil, fmt.Errorf("%w: there is no page %d of %d", errBolt, number, end)
	}
	b := p.b[number*p.size:]
	further := uint64(binary.LittleEndian.Uint32(b[12:]))
	if got := binary.LittleEndian.Uint64(b); got != number || further >= end-number {
		return nil, fmt.Errorf("%w: page %d of %d says that it is page %d and %d more", errBolt, number, end, got, further)
	}
	for i := number; i <= number+further; i++ {
		if p.seen[i] {
			return nil, fmt.Errorf("%w: page %d is in two places", errBolt, i)
		}
		p.seen[i] = true
	}
	return b[:(further+1)*p.size], nil
}

func (p *boltPages) branch(page, low, high []byte) error {
	n := int(binary.LittleEndian.Uint16(page[10:]))
	if n == 0 || boltPageHead+n*boltElement > len(page) {
		return fmt.Errorf("%w: a branch of %d elements", errBolt, n)
	}
	keys := make([][]byte, n+1)
	keys[n] = high
	for i := range n {
		e := page[boltPageHead+i*boltElement:]
		key, _, err := within(e, binary.LittleEndian.Uint32(e), binary.LittleEndian.Uint32(e[4:]), 0)
		if err != nil {
			return err
		}
		keys[i] = key
	}
	for i := range n {
		e := page[boltPageHead+i*boltElement:]
		if bytes.Compare(keys[i], low) < 0 || keys[i+1] != nil && bytes.Compare(keys[i], keys[i+1]) >= 0 {
			return fmt.Errorf("%w: key %x of element %d is out of order", errBolt, keys[i], i)
		}
		if err := p.walk(binary.LittleEndian.Uint64(e[8:]), keys[i], keys[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (p *boltPages) leaf(page, low, high []byte) error {
	n := int(binary.LittleEndian.Uint16(page[10:]))
	if boltPageHead+n*boltElement > len(page) {
		return fmt.Errorf("%w: a leaf of %d elements", errBolt, n)
	}
	last := low
	for i := range n {
		e := page[boltPageHead+i*boltElement:]
		key, value, err := within(e, binary.LittleEndian.Uint32(e[4:]), binary.LittleEndian.Uint32(e[8:]), binary.LittleEndian.Uint32(e[12:]))
		if err != nil {
			return err
		}
		c := bytes.Compare(key, last)
		if c < 0 || c == 0 && i > 0 || high != nil && bytes.Compare(key, high) >= 0 {
			return fmt.Errorf("%w: key %x of element %d is out of order", errBolt, key, i)
		}
		if err := p.check(key, binary.LittleEndian.Uint32(e)&boltBucketEntry != 0, value); err != nil {
			return err
		}
		last = key
	}
	return nil
}

// within cuts a key and the value behind it out of what is left of a page from its element on.
func within(e []byte, pos, keyLen, valueLen uint32) (key, value []byte, err error) {
	from, to := uint64(pos), uint64(pos)+uint64(keyLen)
	end := to + uint64(valueLen)
	if from < boltElement || end > uint64(len(e)) {
		return nil, nil, fmt.Errorf("%w: a key at %d with %d bytes and a value of %d end outside of their page", errBolt, pos, keyLen, valueLen)
	}
	return e[from:to:to], e[to:end:end], nil
}
