package subtree

import (
	"errors"
	"fmt"
	"math/rand"
	"testing"

	"pgregory.net/rapid"

	"github.com/cantus-bus/cantus/internal/vfs"
)

// TestManySources: what many partitions hold, some of it large, comes in order from anywhere, under any limit and budget.
func TestManySources(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewSource(int64(rapid.Uint32().Draw(t, "seed"))))
		s := newStream()
		st := mustOpen(t, vfs.NewMem(), s, Options{CursorBytes: 1 + r.Intn(1<<20)})
		defer st.Close()
		partitions := 2 + r.Intn(30)
		for range 200 + r.Intn(2500) {
			size := r.Intn(100)
			if r.Intn(300) == 0 {
				size = r.Intn(100_000)
			}
			s.add(t, fmt.Sprintf("p/%d/t%d", r.Intn(partitions), r.Intn(5)), make([]byte, size))
		}
		mustSeal(t, st, s, s.cut())
		if r.Intn(2) == 0 {
			mustRewrite(t, st, Generation{Number: 1, FirstWindow: 1, LastWindow: 1, Plans: s.plans(r.Intn(5))})
		}
		fs := mustFilters(t, [][]string{{"**"}, {"p/**"}, {"p/1/**", "p/2/t1", "p/3/t1", "p/4/t2", "p/5/t0"}}[r.Intn(3)]...)
		next := 1 + uint64(r.Intn(2)*r.Intn(int(s.last())))
		got, err := readAll(st, fs, next, func() Limit {
			return Limit{Bytes: r.Intn(2) * r.Intn(50_000), Count: r.Intn(2) * r.Intn(900), UpTo: uint64(r.Intn(4)/3) * s.last(), Scan: r.Intn(2) * (1 + r.Intn(100_000))}
		})
		if err == nil {
			err = same(got, s.want(fs, next, s.last()))
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}

// TestSeqThereTwice: a file that holds a message in two sections is refused, however right its checksums are.
func TestSeqThereTwice(t *testing.T) {
	s := newStream()
	st := mustOpen(t, vfs.NewMem(), s, Options{})
	defer st.Close()
	s.wide(t, 1, 1000, 10)
	mustSeal(t, st, s, s.cut())
	f, err := st.acquireAt(1)
	if err != nil {
		t.Fatal(err)
	}
	defer st.release(f)
	g := merge{reader: reader{op: "read", cache: st.cache}, budget: 1 << 20}
	for range 5 {
		g.sources = append(g.sources, source{sec: &f.foot.sections[0]})
	}
	g.begin(f, nil, 1)
	var damage *CorruptError
	if _, _, err := g.head(); g.slots == nil || !errors.As(err, &damage) {
		t.Errorf("the same section five times: %v", err)
	}
}
