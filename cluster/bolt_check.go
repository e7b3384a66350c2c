package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"syscall"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// errBolt: bolt met pages that it did not write so.
var errBolt = errors.New("its pages are damaged")

// recovered makes an error of the panic with which bolt meets a damaged page, and of a read outside of the file.
func recovered(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errBolt, p)
		}
	}()
	return fn()
}

// boltDamage makes an error about a bolt file one of damage if it is the file's bytes that are wrong, and not the disk, a permission or a
// newer version of bolt.
func boltDamage(path string, err error) error {
	var file *fs.PathError
	var system syscall.Errno
	switch {
	case errors.As(err, &file), errors.As(err, &system), errors.Is(err, bolterrors.ErrTimeout):
		return err
	case errors.Is(err, bolterrors.ErrVersionMismatch):
		return fmt.Errorf("%w: %w", err, errNewerVersion)
	}
	if rerr := readable(path); rerr != nil { // a page that is mapped and cannot be read looks like a damaged one
		return errors.Join(err, rerr)
	}
	return damaged(partRaft, fmt.Errorf("%s: %w: %s", filepath.Base(path), err, howToMend))
}

// checkWhole refuses a file that bolt cannot open, that was cut short, or whose pages do not hang together: bolt would read behind its
// end, or panic in a goroutine of its own, which kills the process without a word of what to do. A file that does not exist is whole.
func checkWhole(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: boltLockLimit}) // looks at the roots only
	if err != nil {
		return err
	}
	if err = checkMetas(path, int64(db.Info().PageSize)); err == nil {
		err = checkPages(path)
	}
	return errors.Join(err, recovered(db.Close))
}

// A bolt file begins with two pages that are written in turn, one by each commit: the newest that is whole is in force. A spoiled one
// would take the last commit back, and with it what this node has promised. A power cut does not spoil one: its 64 bytes are
// within one sector.
//
//	0 [16]byte the page's head   16 u32 magic, u32 version, ...   72 u64 FNV-1a of bytes 16 to 71
const (
	boltMetaHead = 16
	boltMetaSum  = 72
	boltMetaEnd  = 80
)

// checkMetas refuses a file one of whose first two pages is spoiled.
func checkMetas(path string, pageSize int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for i := range int64(2) {
		var b [boltMetaEnd]byte
		if _, err := f.ReadAt(b[:], i*pageSize); err != nil {
			return err
		}
		sum := fnv.New64a()
		_, _ = sum.Write(b[boltMetaHead:boltMetaSum])
		if binary.LittleEndian.Uint64(b[boltMetaSum:]) != sum.Sum64() {
			return fmt.Errorf("%w: page %d, which says what was committed last, has another checksum", errBolt, i)
		}
	}
	return nil
}

// bucketChecks are the buckets of raft's stores, and what of their keys must hold: which may follow on which. A key that was
// spoiled would hide a vote, or an entry.
var bucketChecks = map[string]func(last, key []byte) bool{
	"logs": func(last, key []byte) bool {
		return len(key) == 8 && (last == nil || binary.BigEndian.Uint64(key) == binary.BigEndian.Uint64(last)+1)
	},
	"conf": func(last, key []byte) bool {
		return bytes.Compare(last, key) < 0 && slices.Contains(stableKeys, string(key))
	},
}

// stableKeys are the values that raft keeps.
var stableKeys = []string{string(termKey), "LastVoteTerm", "LastVoteCand"}
