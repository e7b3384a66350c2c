package tipstore

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cantus-bus/cantus/internal/topic"
)

// Watch wakes a sleeping reader when something that its filters match is published. Reader: Arm, Read until nothing more,
// sleep until woken, again.
type Watch struct {
	store   *Store
	wake    func()
	filters topic.Filters
	armed   atomic.Bool
	closed  bool // guarded by watches.mu
}

// NewWatch registers interest in what the filters match. wake is called by the writer, once per Arm, and must not block;
// it may be called although nothing matched.
func (s *Store) NewWatch(fs topic.Filters, wake func()) *Watch {
	w := &Watch{store: s, wake: wake, filters: slices.Clone(fs)}
	s.watches.register(w)
	return w
}

// Arm asks for one call of wake. What is published after Arm returned, or before but not seen by a Read that began after
// Arm, causes it: the writer moves the fence before it looks who is armed.
func (w *Watch) Arm() { w.armed.Store(true) }

// Close ends the interest. A call of wake that has begun may still be running when Close returns.
func (w *Watch) Close() {
	w.armed.Store(false)
	w.store.watches.unregister(w)
}

// fire wakes if armed. Writer only.
func (w *Watch) fire() (woke bool) {
	if !w.armed.Load() || !w.armed.CompareAndSwap(true, false) {
		return false
	}
	w.wake()
	return true
}

// watchers are those who wait at a node. The lists are replaced, never changed, so that the writer reads them without a
// lock.
type watchers struct {
	exact   atomic.Pointer[[]*Watch] // want the node's own topic
	subtree atomic.Pointer[[]*Watch] // want the node's topic and all below
}

func (n *watchers) list(subtree bool) *atomic.Pointer[[]*Watch] {
	if subtree {
		return &n.subtree
	}
	return &n.exact
}

const watchPage = 512

type watcherPage [watchPage]atomic.Pointer[watchers]

// watches finds who wants to know of a topic: lists at the nodes of the topic tree.
//
// Invariant: a filter of a registered watch stands at its path's node, or in pending if there was no such node when the
// writer last looked.
type watches struct {
	table *topic.Table
	count atomic.Int64 // registered watches
	wakes atomic.Uint64

	pages atomic.Pointer[[]*watcherPage] // by node id; nil page: nobody. Elements are replaced under mu by a new slice.

	waiting atomic.Int64 // filters in pending
	mu      struct {
		sync.Mutex
		pending map[string][]pendingWatch // by path
	}

	visits visits
	seen   int // nodes below this were looked for in pending. Writer only.
}

type pendingWatch struct {
	w       *Watch
	subtree bool
}

func (x *watches) open(t *topic.Table) {
	x.table = t
	x.pages.Store(new([]*watcherPage))
	x.mu.pending = map[string][]pendingWatch{}
}

// at returns the watchers of a node or nil.
func (x *watches) at(id topic.ID) *watchers {
	pages := *x.pages.Load()
	if int(id/watchPage) >= len(pages) || pages[id/watchPage] == nil {
		return nil
	}
	return pages[id/watchPage][id%watchPage].Load()
}

func (x *watches) register(w *Watch) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.count.Add(1)
	for _, f := range w.filters {
		if x.place(w, f) {
			continue
		}
		path := f.Path()
		x.mu.pending[path] = append(x.mu.pending[path], pendingWatch{w, f.Subtree()})
		x.waiting.Add(1)
		// The writer makes a node and then looks at waiting; here it is the other way round: one of the two notices.
		if id, ok := x.table.Lookup(path); ok {
			x.settleLocked(path, id)
		}
	}
}

// place puts a filter at its node if there is one. Caller holds mu.
func (x *watches) place(w *Watch, f topic.Filter) bool {
	id, ok := x.table.Lookup(f.Path())
	if ok {
		x.addLocked(id, w, f.Subtree())
	}
	return ok
}

func (x *watches) addLocked(id topic.ID, w *Watch, subtree bool) {
	list := x.nodeLocked(id).list(subtree)
	var old []*Watch
	if p := list.Load(); p != nil {
		old = *p
	}
	now := append(old[:len(old):len(old)], w)
	list.Store(&now)
}

// nodeLocked returns the watchers of a node, made if need be.
func (x *watches) nodeLocked(id topic.ID) *watchers {
	pages := *x.pages.Load()
	if n := int(id / watchPage); n >= len(pages) || pages[n] == nil {
		grown := make([]*watcherPage, max(len(pages), n+1))
		copy(grown, pages)
		grown[n] = new(watcherPage)
		x.pages.Store(&grown)
		pages = grown
	}
	slot := &pages[id/watchPage][id%watchPage]
	if slot.Load() == nil {
		slot.Store(new(watchers))
	}
	return slot.Load()
}

// settleLocked moves the filters that waited for a node to it.
func (x *watches) settleLocked(path string, id topic.ID) {
	for _, p := range x.mu.pending[path] {
		x.addLocked(id, p.w, p.subtree)
		x.waiting.Add(-1)
	}
	delete(x.mu.pending, path)
}

func (x *watches) unregister(w *Watch) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if w.closed {
		return
	}
	w.closed = true
	x.count.Add(-1)
	for _, f := range w.filters {
		x.removePendingLocked(w, f)
		if id, ok := x.table.Lookup(f.Path()); ok {
			x.removeLocked(id, w, f.Subtree())
		}
	}
}

func (x *watches) removePendingLocked(w *Watch, f topic.Filter) {
	list := x.mu.pending[f.Path()]
	i := slices.Index(list, pendingWatch{w, f.Subtree()})
	if i < 0 {
		return
	}
	x.waiting.Add(-1)
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(x.mu.pending, f.Path())
		return
	}
	x.mu.pending[f.Path()] = list
}

func (x *watches) removeLocked(id topic.ID, w *Watch, subtree bool) {
	n := x.at(id)
	if n == nil {
		return
	}
	list := n.list(subtree)
	p := list.Load()
	if p == nil {
		return
	}
	now := slices.DeleteFunc(slices.Clone(*p), func(o *Watch) bool { return o == w })
	if len(now) > 0 {
		list.Store(&now)
		return
	}
	list.Store(nil)
	if n.exact.Load() == nil && n.subtree.Load() == nil {
		(*x.pages.Load())[id/watchPage][id%watchPage].Store(nil)
	}
}
