package client

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cantus-bus/cantus/internal/topic"
)

// maxTopics bounds the topics that one client publishes to, and the topic ids that it takes from a server.
const maxTopics = 16 << 20

// topicTable numbers the topics that this client publishes to, so that batches can be laid out before it is known
// which connection will carry them. The number is not the alias: that belongs to a connection.
type topicTable struct {
	mu    sync.RWMutex
	ids   map[string]uint32
	names []string // by number; Invariant: names[ids[s]] == s
}

// id returns the topic's number. A topic that is new is checked and remembered.
func (t *topicTable) id(name string) (uint32, error) {
	t.mu.RLock()
	id, ok := t.ids[name]
	t.mu.RUnlock()
	if ok {
		return id, nil
	}
	return t.add(name)
}

func (t *topicTable) add(name string) (uint32, error) {
	if err := topic.Validate(name); err != nil {
		return 0, &Error{Op: "publish", Code: CodeBadTopic, Cause: err}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if id, ok := t.ids[name]; ok {
		return id, nil
	}
	if len(t.names) >= maxTopics {
		return 0, &Error{Op: "publish to " + name, Code: CodeTooManyTopics,
			Message: fmt.Sprintf("this client has published to %d topics", len(t.names))}
	}
	if t.ids == nil {
		t.ids = map[string]uint32{}
	}
	id := uint32(len(t.names))
	name = strings.Clone(name)
	t.names = append(t.names, name)
	t.ids[name] = id
	return id, nil
}

// name returns the topic with a number that id has returned.
func (t *topicTable) name(id uint32) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.names[id]
}

// namePage is how many names a page of topicNames holds.
const namePage = 1024

// topicNames is what a server has told of its topic ids. The connection's reader sets names; a consumer may look up
// any name that was set before the frame that it holds was queued, without a lock: pages never move.
type topicNames struct {
	dir atomic.Pointer[[]*[namePage]string] // replaced when it grows
}

// set must be called by one goroutine. False: the id is out of range, or has another name.
func (n *topicNames) set(id uint32, name string) bool {
	if id >= maxTopics {
		return false
	}
	var dir []*[namePage]string
	if p := n.dir.Load(); p != nil {
		dir = *p
	}
	page := int(id / namePage)
	if page >= len(dir) || dir[page] == nil {
		grown := make([]*[namePage]string, max(page+1, len(dir)))
		copy(grown, dir)
		grown[page] = new([namePage]string)
		dir = grown
		n.dir.Store(&dir)
	}
	switch dir[page][id%namePage] {
	case "":
		dir[page][id%namePage] = name
		return true
	case name: // told again: not written, as a consumer may be reading it
		return true
	}
	return false
}

// get returns "" for an id that was never set.
func (n *topicNames) get(id uint32) string {
	p := n.dir.Load()
	if p == nil {
		return ""
	}
	page := int(id / namePage)
	if page >= len(*p) || (*p)[page] == nil {
		return ""
	}
	return (*p)[page][id%namePage]
}
