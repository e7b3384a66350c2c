package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
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
	return hurt(stores{logs: logs, stable: stable, close: func() error { return errors.Join(logs.Close(), stable.Close()) }}), nil
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
	s, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: bo, NoSync: bugs.NoFsync})
	if err != nil {
		return nil, fmt.Errorf("open raft store %s: %w", path, err)
	}
	return s, nil
}

// checkWhole refuses a file that bolt cannot open or that was cut short: bolt would read behind its end, which kills the
// process without a word of why. A file that does not exist is whole.
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
	if err = errors.Join(err, db.Close()); err == nil && info.Size() < size {
		err = fmt.Errorf("it has %d bytes of at least %d", info.Size(), size)
	}
	return err
}
