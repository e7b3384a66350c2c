package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"
)

// The cache against the store beneath it: whatever is stored, cut and read, both say the same.
func TestLogCacheIsTransparent(t *testing.T) {
	const limit = 1000
	rapid.Check(t, func(t *rapid.T) {
		plain, under := raft.NewInmemStore(), raft.NewInmemStore()
		c := newLogCache(under, limit)
		next := uint64(1)
		t.Repeat(map[string]func(*rapid.T){
			"store": func(t *rapid.T) {
				var logs []*raft.Log
				for range rapid.IntRange(1, 5).Draw(t, "n") {
					size := rapid.SampledFrom([]int{1, 100, limit / 3, limit + 1}).Draw(t, "size")
					logs = append(logs, &raft.Log{Index: next, Term: rapid.Uint64Range(1, 9).Draw(t, "term"), Data: make([]byte, size)})
					next++
				}
				if err := c.StoreLogs(logs); err != nil {
					t.Fatal(err)
				}
				if err := plain.StoreLogs(logs); err != nil {
					t.Fatal(err)
				}
			},
			"cut": func(t *rapid.T) {
				from := rapid.Uint64Range(1, next).Draw(t, "from")
				for _, s := range []raft.LogStore{c, plain} {
					if err := s.DeleteRange(from, next); err != nil {
						t.Fatal(err)
					}
				}
				next = from
			},
			"": func(t *rapid.T) {
				checkCache(t, c)
				for i := next - min(next, 8); i < next+2; i++ {
					var a, b raft.Log
					ea, eb := c.GetLog(i, &a), plain.GetLog(i, &b)
					if (ea == nil) != (eb == nil) || ea == nil && (a.Term != b.Term || a.Index != b.Index || len(a.Data) != len(b.Data)) {
						t.Fatalf("entry %d: cache %v %v, store %v %v", i, a.Term, ea, b.Term, eb)
					}
				}
			},
		})
	})
}

// checkCache holds the cache to its invariants.
func checkCache(t *rapid.T, c *logCache) {
	bytes, n := 0, 0
	for _, l := range c.mu.slots {
		if l == nil {
			continue
		}
		n++
		bytes += len(l.Data)
		if l.Index < c.mu.first || l.Index >= c.mu.next {
			t.Fatalf("slot of entry %d outside [%d, %d)", l.Index, c.mu.first, c.mu.next)
		}
	}
	if bytes != c.mu.bytes || uint64(n) != c.mu.next-c.mu.first || bytes > c.limit && n > 1 {
		t.Fatalf("%d entries of %d bytes, noted %d of %d", n, bytes, c.mu.next-c.mu.first, c.mu.bytes)
	}
}

// The ring against a slice.
func TestQueueIsAQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var model []int
		next := 0
		t.Repeat(map[string]func(*rapid.T){
			"push": func(*rapid.T) {
				q.push(queued{size: next})
				model = append(model, next)
				next++
			},
			"pop": func(t *rapid.T) {
				if len(model) == 0 {
					t.Skip()
				}
				if got := q.pop().size; got != model[0] {
					t.Fatalf("popped %d, want %d", got, model[0])
				}
				model = model[1:]
			},
			"putBack": func(t *rapid.T) {
				n := rapid.IntRange(0, 100).Draw(t, "n")
				items, front := make([]queued, n), make([]int, n)
				for i := range n {
					items[i].size, front[i] = next, next
					next++
				}
				q.putBack(items)
				model = append(front, model...)
			},
			"": func(t *rapid.T) {
				if q.len() != len(model) || len(model) > 0 && q.front().size != model[0] {
					t.Fatalf("length %d, want %d", q.len(), len(model))
				}
			},
		})
	})
}

func TestFounders(t *testing.T) {
	node := func(id string, change func(*member)) member {
		m := member{id: id, alive: true, meta: meta{Raft: id + ":1", Expect: 3}}
		if change != nil {
			change(&m)
		}
		return m
	}
	b, d := node("b", nil), node("d", nil)
	for name, c := range map[string]struct {
		others []member
		want   string
	}{
		"too few":             {[]member{b}, "[]"},
		"enough":              {[]member{d, b}, "[b c d]"},
		"more than expected":  {[]member{d, b, node("a", nil)}, "[a b c]"},
		"one is dead":         {[]member{b, node("d", func(m *member) { m.alive = false })}, "[]"},
		"one is a replica":    {[]member{b, node("d", func(m *member) { m.meta.Replica = true })}, "[]"},
		"one expects another": {[]member{b, node("d", func(m *member) { m.meta.Expect = 5 })}, "[]"},
		"there is a cluster":  {[]member{b, d, node("e", func(m *member) { m.meta.State = true })}, "[]"},
	} {
		var ids []string
		for _, f := range founders(founder{id: "c"}, 3, c.others) {
			ids = append(ids, f.id)
		}
		if got := fmt.Sprint(ids); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if deriveCluster("x", []string{"a", "b"}) == deriveCluster("y", []string{"a", "b"}) {
		t.Error("clusters of different names have the same id")
	}
}

func TestMetadataFitsGossip(t *testing.T) {
	long := string(make([]byte, 300))
	if _, err := (meta{Raft: long, Client: long}).encode(); err == nil {
		t.Fatal("metadata over gossip's limit was accepted")
	}
	m := meta{Name: "n", Raft: "h:1", Client: "h:2", HTTP: "h:3", Cluster: "c", Replica: true, State: true, Expect: 3, Ballot: "b", Version: "v"}
	enc, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decodeMeta(enc); err != nil || got != m {
		t.Fatalf("%+v %v", got, err)
	}
}

func TestOptionErrors(t *testing.T) {
	for _, change := range []func(*Options){
		func(o *Options) { o.DataDir = "" },
		func(o *Options) { o.LogStore = "tape" },
		func(o *Options) { o.BootstrapExpect = -1 },
		func(o *Options) { o.Replica, o.BootstrapExpect = true, 1 },
		func(o *Options) { o.GossipKey = []byte("short") },
		func(o *Options) { o.MaxInflight = 1 },
		func(o *Options) { o.EntriesInflight = 1000 },
		func(o *Options) { o.RaftListen = "nonsense" },
		func(o *Options) { o.GossipListen = "0.0.0.0:0" },
	} {
		o := Options{DataDir: t.TempDir()}
		change(&o)
		if n, err := Open(o); err == nil {
			t.Errorf("opened with %+v: %v", o, n.Close())
		}
	}
}

func TestPositionsWakeWhoWaits(t *testing.T) {
	var p positions
	p.init()
	done := make(chan error, 1)
	go func() {
		done <- p.wait(t.Context(), nil, func() bool { return p.index.Load() >= 1000 })
	}()
	for i := range uint64(1000) {
		p.advance(i + 1)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("nobody was woken")
	}
}
