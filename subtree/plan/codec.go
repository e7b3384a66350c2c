package plan

import (
	"encoding/binary"
	"fmt"
)

// The bytes of a plan. Integers marked v are unsigned varints in their shortest form.
//
//	version     1 byte   1
//	partition   v        length of the path in bytes
//	            n bytes  the path
//	stores      v        how many, 1 to MaxStores
//	  id        v        the first id; then each id less its predecessor less 1
//	rules       v        how many, 1 to MaxRules, in the order of compareRules
//	  path      v        how many bytes it shares with the path before it, as many as possible (first: with the partition)
//	            v        how many bytes follow
//	            n bytes  the rest of the path
//	  kind      1 byte   0 exact, 1 subtree, 2 spread
//	  stores    v        for spread only: how many
//	    store   v        index of the store, from 0
//
// Nothing follows the last rule. There is no checksum: a plan travels inside a log entry, which has one. Equal plans have
// equal bytes, and bytes that are not exactly those of a plan are refused.

// Version is the first byte of an encoded plan.
const Version = 1

// Append appends the encoded plan to dst.
func (p *Plan) Append(dst []byte) []byte {
	dst = append(dst, Version)
	dst = appendInt(dst, len(p.partition))
	dst = append(dst, p.partition...)
	dst = appendInt(dst, len(p.ids))
	next := uint32(0)
	for _, id := range p.ids {
		dst = binary.AppendUvarint(dst, uint64(id-next))
		next = id + 1
	}
	dst = appendInt(dst, len(p.rules))
	before := p.partition
	for _, r := range p.rules {
		dst = appendRule(dst, before, r)
		before = r.Path
	}
	return dst
}

func appendInt(dst []byte, n int) []byte { return binary.AppendUvarint(dst, uint64(n)) }

func appendRule(dst []byte, before string, r Rule) []byte {
	n := commonPrefix(before, r.Path)
	dst = appendInt(dst, n)
	dst = appendInt(dst, len(r.Path)-n)
	dst = append(dst, r.Path[n:]...)
	dst = append(dst, byte(r.Kind))
	if r.Kind == Spread {
		dst = appendInt(dst, len(r.Stores))
	}
	for _, store := range r.Stores {
		dst = appendInt(dst, store)
	}
	return dst
}

func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// Decode reads the bytes of one plan, all of them. The plan keeps none of src. Errors wrap ErrInvalid and tell the offset.
func Decode(src []byte) (*Plan, error) {
	d := &decoder{src: src}
	version := d.byte()
	if d.err == nil && version != Version {
		d.fail("version %d, this program reads version %d", version, Version)
	}
	partition := string(d.bytes(d.int(len(src))))
	ids := make([]uint32, d.int(min(MaxStores, d.left())))
	next := uint32(0)
	for i := range ids {
		ids[i] = next + uint32(d.int(MaxID-int(next)))
		next = ids[i] + 1
	}
	rules := d.rules(partition, len(ids))
	if d.err == nil && d.left() > 0 {
		d.fail("%d bytes after the last rule", d.left())
	}
	if d.err != nil {
		return nil, d.err
	}
	for i := 1; i < len(rules); i++ {
		if !before(rules[i-1], rules[i]) {
			return nil, fmt.Errorf("%w: decode: rule %d is out of order", ErrInvalid, i)
		}
	}
	return New(partition, ids, rules)
}

// decoder reads from the front of src. After an error every method returns zero values, and no count is above 0.
type decoder struct {
	src []byte
	at  int
	err error
}

func (d *decoder) left() int { return len(d.src) - d.at }

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: decode: at byte %d: %w", ErrInvalid, d.at, fmt.Errorf(format, args...))
	}
}

func (d *decoder) byte() byte {
	if b := d.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (d *decoder) bytes(n int) []byte {
	if d.err == nil && n > d.left() {
		d.fail("%d bytes wanted, %d left", n, d.left())
	}
	if d.err != nil {
		return nil
	}
	d.at += n
	return d.src[d.at-n : d.at]
}

// int reads a varint of at most most.
func (d *decoder) int(most int) int {
	if d.err != nil {
		return 0
	}
	v, n := binary.Uvarint(d.src[d.at:])
	switch {
	case n <= 0:
		d.fail("cut short, or a number above 64 bits")
	case n > 1 && d.src[d.at+n-1] == 0:
		d.fail("a number with needless zero bytes")
	case most < 0 || v > uint64(most):
		d.fail("number %d, at most %d can be", v, most)
	}
	if d.err != nil {
		return 0
	}
	d.at += n
	return int(v)
}

func (d *decoder) rules(partition string, stores int) []Rule {
	const leastBytes = 4 // of a rule
	rules := make([]Rule, d.int(min(MaxRules, d.left()/leastBytes)))
	path := partition
	for i := range rules {
		shared := d.int(len(path))
		rest := string(d.bytes(d.int(d.left())))
		if d.err == nil && shared < len(path) && rest != "" && rest[0] == path[shared] {
			d.fail("rule %d shares more with the path before it than is said", i)
		}
		path = path[:shared] + rest
		kind := Kind(d.byte())
		rules[i] = Rule{Path: path, Kind: kind, Stores: d.stores(kind, stores)}
		if d.err != nil {
			return nil
		}
	}
	return rules
}

func (d *decoder) stores(kind Kind, most int) []int {
	n := 1
	if kind == Spread {
		n = d.int(min(MaxStores, d.left()))
	}
	list := make([]int, n)
	for i := range list {
		list[i] = d.int(most - 1)
	}
	return list
}
