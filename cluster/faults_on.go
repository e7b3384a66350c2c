//go:build faults

package cluster

import (
	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/internal/faults"
)

// hurt gives raft's stores the faults of a test build. A bolt transaction is a write and a sync.
func hurt(s stores) stores {
	s.logs, s.stable = hurtLogs{s.logs}, hurtStable{s.stable}
	return s
}

// store fails before anything is written if writing fails, and after it if syncing does: then nobody knows what is there.
func store(do func() error) error {
	if err := faults.Write(); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return faults.Sync()
}

type hurtLogs struct{ raft.LogStore }

func (s hurtLogs) StoreLog(log *raft.Log) error {
	return store(func() error { return s.LogStore.StoreLog(log) })
}

func (s hurtLogs) StoreLogs(logs []*raft.Log) error {
	err := store(func() error {
		return faults.During(faults.Append, func() error { return s.LogStore.StoreLogs(logs) })
	})
	faults.Pass(faults.Appended)
	return err
}

func (s hurtLogs) DeleteRange(low, high uint64) error {
	return store(func() error { return s.LogStore.DeleteRange(low, high) })
}

type hurtStable struct{ raft.StableStore }

func (s hurtStable) Set(key, value []byte) error {
	return store(func() error { return s.StableStore.Set(key, value) })
}

func (s hurtStable) SetUint64(key []byte, value uint64) error {
	return store(func() error { return s.StableStore.SetUint64(key, value) })
}
