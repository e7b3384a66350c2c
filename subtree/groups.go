package subtree

import (
	"container/list"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cantus-bus/cantus/internal/topic"
)

// chunkBytes is how much readers that read together merge at a time, or one larger record.
const chunkBytes = DefaultReadBytes

// groups let cursors with the same filters, which are near each other in the same file, read it once for all: one of them
// merges the next chunk, the others wait for it and are given it. A cursor that is alone in a file with its filters reads
// alone and keeps nothing for others. Chunks that not all have read yet are kept, those used last, up to a number of
// bytes; a cursor that falls behind them merges for itself again.
type groups struct {
	limit int64

	mu struct {
		sync.Mutex
		bytes int64
		all   map[groupKey]*group // with at least one cursor, of files that have not left
		order list.List           // of *chunk: used last in front
	}
}

type groupKey struct {
	f       *file
	filters string
}

// group is one file as read by cursors with the same filters. All but together is guarded by the groups' mu.
type group struct {
	groupKey
	together atomic.Bool // there was a second cursor; never false again
	cursors  int
	chunks   []*chunk                 // by after
	making   map[uint64]chan struct{} // by after: somebody merges that chunk now; closed when it is there, or failed
	merges   []*merge                 // of nobody now, each where its last chunk ended; at most one a cursor, that used last at the end
}

// chunk holds a group's matches above after, up to through. It does not change any more, but for seen.
type chunk struct {
	group          *group
	after, through uint64
	records        []byte
	count          int
	last           uint64 // seq of the last record; 0: none

	seen    int           // cursors that are past it; guarded by the groups' mu
	element *list.Element // nil: not kept; guarded by the groups' mu
}

// place is where in a chunk a cursor is.
type place struct {
	chunk *chunk
	off   int // bytes read
	count int // records read
}

func newGroups(limit int64) *groups {
	x := &groups{limit: limit}
	x.mu.all = make(map[groupKey]*group)
	return x
}

// join makes a cursor one of a file's.
func (x *groups) join(f *file, m *topic.Matcher) *group {
	key := groupKey{f, strings.Join(m.Filters().Strings(), "\n")} // no filter holds a line break
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.mu.all[key]
	if s == nil {
		s = &group{groupKey: key, making: make(map[uint64]chan struct{})}
		x.mu.all[key] = s
	}
	s.cursors++
	if s.cursors > 1 {
		s.together.Store(true)
	}
	return s
}

// leave takes a cursor out; the last one ends the group.
func (x *groups) leave(s *group) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s.cursors--
	if s.cursors == 0 {
		x.end(s)
	}
	s.merges = slices.Delete(s.merges, 0, max(0, len(s.merges)-s.cursors))
}

// drop forgets what was read of a file that has left, for cursors that are still to notice it.
func (x *groups) drop(f *file) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for key, s := range x.mu.all {
		if key.f == f {
			x.end(s)
		}
	}
}

// end forgets a group; mu is held.
func (x *groups) end(s *group) {
	if x.mu.all[s.groupKey] == s {
		delete(x.mu.all, s.groupKey)
	}
	for len(s.chunks) > 0 {
		x.remove(s.chunks[len(s.chunks)-1])
	}
	s.merges = nil
}

// find returns the chunk that says what comes after a seq. If there is none it returns a channel to wait for before it is
// asked again, or nil: the caller makes the chunk, by g if that is not nil, and calls made.
func (x *groups) find(s *group, after uint64) (c *chunk, wait chan struct{}, g *merge) {
	x.mu.Lock()
	defer x.mu.Unlock()
	i := sort.Search(len(s.chunks), func(i int) bool { return s.chunks[i].after > after })
	if i > 0 && s.chunks[i-1].through > after {
		c = s.chunks[i-1]
		x.mu.order.MoveToFront(c.element)
		return c, nil, nil
	}
	if wait = s.making[after]; wait != nil {
		return nil, wait, nil
	}
	s.making[after] = make(chan struct{})
	if i := slices.IndexFunc(s.merges, func(g *merge) bool { return g.scanned == after }); i >= 0 {
		g = s.merges[i]
		s.merges = slices.Delete(s.merges, i, i+1)
	}
	return nil, nil, g
}

// made ends the making of the chunk after a seq. c and g are nil if there is nothing to keep of them.
func (x *groups) made(s *group, after uint64, c *chunk, g *merge) {
	x.mu.Lock()
	defer x.mu.Unlock()
	close(s.making[after])
	delete(s.making, after)
	if x.mu.all[s.groupKey] != s {
		return
	}
	if g != nil {
		s.merges = append(s.merges, g)
		s.merges = slices.Delete(s.merges, 0, max(0, len(s.merges)-s.cursors))
	}
	if c == nil {
		return
	}
	i := sort.Search(len(s.chunks), func(i int) bool { return s.chunks[i].after >= after })
	if i < len(s.chunks) && s.chunks[i].after == after {
		x.remove(s.chunks[i])
	}
	s.chunks = slices.Insert(s.chunks, i, c)
	c.element = x.mu.order.PushFront(c)
	x.mu.bytes += c.size()
	for x.mu.bytes > x.limit {
		x.remove(x.mu.order.Back().Value.(*chunk))
	}
}

// passed notes that a cursor has read all of a chunk. When all have, nobody needs it.
func (x *groups) passed(c *chunk) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c.seen++
	if c.seen >= c.group.cursors && c.element != nil {
		x.remove(c)
	}
}

// remove takes a chunk out; mu is held.
func (x *groups) remove(c *chunk) {
	s := c.group
	i := sort.Search(len(s.chunks), func(i int) bool { return s.chunks[i].after >= c.after })
	s.chunks = slices.Delete(s.chunks, i, i+1)
	x.mu.order.Remove(c.element)
	c.element = nil
	x.mu.bytes -= c.size()
}

// size is what a chunk counts for the limit.
func (c *chunk) size() int64 { return int64(len(c.records)) + cacheOverhead }
