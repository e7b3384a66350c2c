package subtree

import (
	"container/list"
	"sync"
)

// cache keeps checked pages of block tables and directories, those used last, up to a number of bytes.
type cache struct {
	limit int64

	mu struct {
		sync.Mutex
		bytes int64
		pages map[pageKey]*list.Element // of cached
		order list.List                 // used last in front
	}
}

type pageKey struct {
	f  *file
	at uint64
}

type cached struct {
	key   pageKey
	value any
	bytes int64
}

// cacheOverhead is what a page costs beside its bytes.
const cacheOverhead = 200

func newCache(limit int64) *cache {
	c := &cache{limit: limit}
	c.mu.pages = make(map[pageKey]*list.Element)
	return c
}

func (c *cache) get(f *file, at uint64) (any, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.mu.pages[pageKey{f, at}]
	if !ok {
		return nil, false
	}
	c.mu.order.MoveToFront(e)
	return e.Value.(*cached).value, true
}

// put keeps a value, which nobody changes any more. One that takes more than an eighth of the cache is not kept.
func (c *cache) put(f *file, at uint64, value any, bytes int) {
	n := int64(bytes) + cacheOverhead
	if n > c.limit/8 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := pageKey{f, at}
	if _, ok := c.mu.pages[key]; ok {
		return
	}
	c.mu.pages[key] = c.mu.order.PushFront(&cached{key, value, n})
	c.mu.bytes += n
	for c.mu.bytes > c.limit {
		c.remove(c.mu.order.Back())
	}
}

// remove takes an element out; mu is held.
func (c *cache) remove(e *list.Element) {
	x := c.mu.order.Remove(e).(*cached)
	delete(c.mu.pages, x.key)
	c.mu.bytes -= x.bytes
}

// drop forgets the pages of a file.
func (c *cache) drop(f *file) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.mu.order.Front(); e != nil; {
		next := e.Next()
		if e.Value.(*cached).key.f == f {
			c.remove(e)
		}
		e = next
	}
}
