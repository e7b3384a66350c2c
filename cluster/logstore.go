package cluster

import (
	"errors"
	"fmt"
	"math/bits"
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
	logs, err := openBolt(f.path(logFile), boltMmap)
	if err != nil {
		return stores{}, err
	}
	stable, err := openBolt(f.path(stableFile), 0)
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
		return nil, fmt.Errorf("open raft store %s: %w", path, boltDamage(path, err))
	}
	var s *raftboltdb.BoltStore
	err := recovered(func() (err error) {
		s, err = raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: bo, NoSync: bugs.NoFsync})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open raft store %s: %w", path, boltDamage(path, err))
	}
	return s, nil
}
