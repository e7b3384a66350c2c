package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"runtime/debug"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"github.com/cantus-bus/cantus/internal/bugs"
)

// boltMmap is the address space that bolt maps at once. It is not allocated; a small first map makes bolt map again,
// and stop all readers for it, each time the file doubles.
const boltMmap = 8 << 30

// boltLockLimit bounds bolt's own file lock; the folder's lock is held before.
const boltLockLimit = 5 * time.Second

// stores are raft's two stores.
type stores struct {
	logs   raft.LogStore
	stable raft.StableStore
	close  func() error
}

// openStores opens what Options.LogStore names.
func openStores(o Options, f *folder) (stores, error) {
	if o.LogStore == LogStoreMemory {
		m := raft.NewInmemStore()
		return stores{logs: m, stable: m, close: func() error { return nil }}, nil
	}
	logs, err := openBolt(f.path("log.db"), boltMmap)
	if err != nil {
		return stores{}, err
	}
	stable, err := openBolt(f.path("stable.db"), 0)
	if err != nil {
		return stores{}, errors.Join(err, logs.Close())
	}
	return hurt(stores{logs: checkedLogs{logs}, stable: checkedStable{stable}, close: func() error { return errors.Join(logs.Close(), stable.Close()) }}), nil
}

// openBolt opens a bolt file that fsyncs every commit. The freelist is not written (it is rebuilt at start) and is kept
// as a map, else each commit of a large log costs more with every page that was ever freed.
func openBolt(path string, mmap int64) (*raftboltdb.BoltStore, error) {
	bo := &bbolt.Options{Timeout: boltLockLimit, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType}
	if bits.UintSize == 64 {
		bo.InitialMmapSize = int(mmap)
	}
	if err := checkWhole(path); err != nil {
		return nil, fmt.Errorf("open raft store %s: %w: %s", path, err, howToMend)
	}
	var s *raftboltdb.BoltStore
	err := recovered(func() (err error) {
		s, err = raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: bo, NoSync: bugs.NoFsync})
		return err
	})
	if errors.Is(err, errBolt) {
		return nil, fmt.Errorf("open raft store %s: %w: %s", path, err, howToMend)
	}
	if err != nil {
		return nil, fmt.Errorf("open raft store %s: %w", path, err)
	}
	return s, nil
}

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
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: boltLockLimit})
	if err != nil {
		return err
	}
	var size int64
	err = db.View(func(tx *bbolt.Tx) error { size = tx.Size(); return nil })
	if err == nil && info.Size() < size {
		err = fmt.Errorf("it has %d bytes of at least %d", info.Size(), size)
	}
	if err == nil {
		err = recovered(func() error { return walkPages(db) })
	}
	return errors.Join(err, recovered(db.Close))
}

// walkPages visits every page of every bucket. It does not read values that have pages of their own: entries have checksums.
func walkPages(db *bbolt.DB) (err error) {
	tx, err := db.Begin(false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tx.Rollback()) }() // after a panic too: else the file cannot be closed
	return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
		var last []byte
		c := b.Cursor()
		for k, _ := c.First(); k != nil; k, _ = c.Next() {
			if last != nil && bytes.Compare(last, k) >= 0 {
				return fmt.Errorf("%w: keys are out of order", errBolt)
			}
			last = k
		}
		return nil
	})
}
