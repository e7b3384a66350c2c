package cluster

import (
	"sync"

	"github.com/hashicorp/raft"
)

const (
	cacheBytes = 32 << 20 // of entry data kept for followers that are close behind, and for the apply on followers
	cacheSlots = 1 << 13  // entries; a power of two
)

// logCache keeps the newest entries in memory, bounded in bytes (raft's own cache counts entries, and ours are up to
// 256 KiB each). An entry's data is shared with raft and never changed.
type logCache struct {
	raft.LogStore
	limit int // bytes
	mu    struct {
		sync.RWMutex
		slots       [cacheSlots]*raft.Log // by index modulo cacheSlots
		first, next uint64                // Invariant: slots hold exactly the indexes first <= i < next, at most cacheSlots
		bytes       int                   // Invariant: sum of their data; <= limit, or there is one entry
	}
}

func newLogCache(s raft.LogStore, limit int) *logCache { return &logCache{LogStore: s, limit: limit} }

func slot(index uint64) uint64 { return index & (cacheSlots - 1) }

// GetLog implements raft.LogStore.
func (c *logCache) GetLog(index uint64, log *raft.Log) error {
	c.mu.RLock()
	if index >= c.mu.first && index < c.mu.next {
		*log = *c.mu.slots[slot(index)]
		c.mu.RUnlock()
		return nil
	}
	c.mu.RUnlock()
	return c.LogStore.GetLog(index, log)
}

// StoreLog implements raft.LogStore.
func (c *logCache) StoreLog(log *raft.Log) error { return c.StoreLogs([]*raft.Log{log}) }

// StoreLogs implements raft.LogStore: what is on disk becomes cached.
func (c *logCache) StoreLogs(logs []*raft.Log) error {
	if err := c.LogStore.StoreLogs(logs); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range logs {
		if l.Index != c.mu.next {
			c.resetLocked(l.Index)
		}
		c.addLocked(l)
	}
	return nil
}

// DeleteRange implements raft.LogStore. A cut end is written again with other entries, so the cache starts anew; a cut beginning
// leaves what comes after it.
func (c *logCache) DeleteRange(low, high uint64) error {
	c.mu.Lock()
	if high+1 < c.mu.next && low <= c.mu.first {
		for c.mu.first <= high {
			c.dropLocked()
		}
	} else {
		c.resetLocked(0)
	}
	c.mu.Unlock()
	return c.LogStore.DeleteRange(low, high)
}

func (c *logCache) resetLocked(next uint64) {
	for c.mu.first < c.mu.next {
		c.dropLocked()
	}
	c.mu.first, c.mu.next = next, next
}

func (c *logCache) addLocked(l *raft.Log) {
	if c.mu.next-c.mu.first == cacheSlots {
		c.dropLocked()
	}
	c.mu.slots[slot(l.Index)] = l
	c.mu.next++
	c.mu.bytes += len(l.Data)
	for c.mu.bytes > c.limit && c.mu.next-c.mu.first > 1 {
		c.dropLocked()
	}
}

func (c *logCache) dropLocked() {
	s := &c.mu.slots[slot(c.mu.first)]
	c.mu.bytes -= len((*s).Data)
	*s = nil
	c.mu.first++
}
