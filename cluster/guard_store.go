package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/internal/bugs"
)

// errStorePoisoned: a write failed before. What is on disk is not known, so nothing is written any more.
var errStorePoisoned = errors.New("raft store failed before and takes no more writes")

// guardStore stands between raft and its stores. raft goes on leading when its disk fails or hangs; the guard fails the
// node instead: on the first error of a write, on a read that fails with anything but "not found", and when a call takes
// longer than limit. fail must cut the node's network before it returns. After a failed write the guard refuses all
// others, so that nothing is acknowledged on top of it.
type guardStore struct {
	logs    raft.LogStore
	stable  raft.StableStore
	limit   time.Duration
	fail    func(error)
	metrics *metrics
	begun   func() error  // called after entries were stored, before anybody is told; cheap after the first time
	applied func() uint64 // index of the newest entry that readers may have seen

	sizes    logSizes
	poisoned atomic.Bool
	mu       struct {
		sync.Mutex
		nextCall uint64
		calls    map[uint64]call // under way
	}
}

type call struct {
	op    string
	start time.Time
}

func newGuardStore(s stores, limit time.Duration, fail func(error), m *metrics) *guardStore {
	g := &guardStore{logs: s.logs, stable: s.stable, limit: limit, fail: fail, metrics: m, begun: func() error { return nil }, applied: func() uint64 { return 0 }}
	g.mu.calls = make(map[uint64]call)
	return g
}

// begin notes that a call is under way; the watch looks at its age.
func (g *guardStore) begin(op string) (uint64, time.Time) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.nextCall++
	g.mu.calls[g.mu.nextCall] = call{op, now}
	return g.mu.nextCall, now
}

func (g *guardStore) end(id uint64) {
	g.mu.Lock()
	delete(g.mu.calls, id)
	g.mu.Unlock()
}

// watch fails the node when a call hangs. It runs until ctx ends.
func (g *guardStore) watch(ctx context.Context) {
	t := time.NewTicker(max(g.limit/10, time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			if op, age := g.oldest(now); age > g.limit && !bugs.SickStore {
				g.poisoned.Store(true)
				g.fail(fmt.Errorf("raft store: %s has not returned for %v (limit %v): the disk hangs: restart the node when it works again",
					op, age.Round(time.Millisecond), g.limit))
				return
			}
		}
	}
}

func (g *guardStore) oldest(now time.Time) (op string, age time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.mu.calls {
		if d := now.Sub(c.start); d > age {
			op, age = c.op, d
		}
	}
	return op, age
}

// write runs one write under guard.
func (g *guardStore) write(op string, f func() error) error {
	if g.poisoned.Load() {
		return errStorePoisoned
	}
	id, start := g.begin(op)
	err := f()
	g.end(id)
	g.metrics.store(op, time.Since(start))
	if err != nil && !bugs.SickStore {
		g.poisoned.Store(true)
		g.fail(fmt.Errorf("raft store: %s: %w: what the disk holds is not known: restart the node when the disk works again", op, err))
	}
	return err
}

// FirstIndex implements raft.LogStore.
func (g *guardStore) FirstIndex() (uint64, error) { return g.logs.FirstIndex() }

// LastIndex implements raft.LogStore.
func (g *guardStore) LastIndex() (uint64, error) { return g.logs.LastIndex() }

// GetLog implements raft.LogStore.
func (g *guardStore) GetLog(index uint64, log *raft.Log) error {
	err := g.logs.GetLog(index, log)
	if err != nil && !errors.Is(err, raft.ErrLogNotFound) {
		g.poisoned.Store(true)
		g.fail(damaged(partRaft, fmt.Errorf("raft store: read entry %d: %w: the log is damaged here: %s", index, err, howToMend)))
	}
	return err
}

// StoreLog implements raft.LogStore.
func (g *guardStore) StoreLog(log *raft.Log) error { return g.StoreLogs([]*raft.Log{log}) }

// StoreLogs implements raft.LogStore.
func (g *guardStore) StoreLogs(logs []*raft.Log) error {
	bytes := 0
	for _, l := range logs {
		bytes += len(l.Data)
	}
	g.metrics.storeBytes.Observe(float64(bytes))
	g.metrics.storeEntries.Observe(float64(len(logs)))
	return g.write("store_logs", func() error {
		if err := g.logs.StoreLogs(logs); err != nil {
			return err
		}
		g.sizes.stored(logs)
		return g.begun()
	})
}

// DeleteRange implements raft.LogStore.
func (g *guardStore) DeleteRange(low, high uint64) error {
	if err := g.takenBack(low, high); err != nil {
		g.poisoned.Store(true)
		g.fail(err)
		return err
	}
	return g.write("delete_range", func() error {
		if err := g.logs.DeleteRange(low, high); err != nil {
			return err
		}
		g.sizes.deleted(low, high)
		return nil
	})
}

// takenBack is an error if the log's end is to go with something that was applied. Raft takes the end back when a leader has other
// entries in its place: these were never committed, unless a majority has lost them. Then this node's state is not the leader's any more.
func (g *guardStore) takenBack(low, high uint64) error {
	last, err := g.logs.LastIndex()
	if err != nil {
		return fmt.Errorf("raft store: last index: %w", err)
	}
	if applied := g.applied(); high >= last && low <= applied {
		return fmt.Errorf("raft store: the leader has other entries from %d on, and those up to %d were applied here: "+
			"the other nodes have lost what was committed: %s", low, applied, howToMend)
	}
	return nil
}

// set writes a term or a vote. raft panics when that fails, before the process can say why it stops. The guard has failed
// the node by then, which has cut its network, so raft may go on: what it believes reaches nobody, and StoreLogs
// refuses to store it.
func (g *guardStore) set(f func() error) error {
	_ = g.write("set", f) // told by fail
	return nil
}

// Set implements raft.StableStore.
func (g *guardStore) Set(key, value []byte) error {
	return g.set(func() error { return g.stable.Set(key, value) })
}

// SetUint64 implements raft.StableStore.
func (g *guardStore) SetUint64(key []byte, value uint64) error {
	return g.set(func() error { return g.stable.SetUint64(key, value) })
}

// Get implements raft.StableStore. "Not found" is an error that raft knows by its text.
func (g *guardStore) Get(key []byte) ([]byte, error) { return g.stable.Get(key) }

// GetUint64 implements raft.StableStore.
func (g *guardStore) GetUint64(key []byte) (uint64, error) { return g.stable.GetUint64(key) }
