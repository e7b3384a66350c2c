package heapbench

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// mergeAll drains the lists through a merger, dst of size batch at a time.
func mergeAll(t *rapid.T, m Merger, l *Lists, batch int) (merged []uint64) {
	dst := make([]uint64, batch)
	m.Reset(l)
	for {
		n := m.Fill(dst)
		merged = append(merged, dst[:n]...)
		if n < batch {
			if again := m.Fill(dst); again != 0 {
				t.Fatalf("%d keys after the end", again)
			}
			return merged
		}
	}
}

// TestMergersAgainstSort holds each merger, used again and again, to a sorted concatenation of the lists.
func TestMergersAgainstSort(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m, err := New(name)
				if err != nil {
					t.Fatal(err)
				}
				for range 3 {
					compareWithSort(t, m)
				}
			})
		})
	}
}

func compareWithSort(t *rapid.T, m Merger) {
	least := rapid.SampledFrom([]uint64{0, 7, 1<<40 - 400}).Draw(t, "least")
	keys := rapid.SliceOfN(rapid.Uint64Range(least, least+300), 0, 20)
	lists := rapid.SliceOfN(keys, 0, 70).Draw(t, "lists")
	for _, l := range lists {
		slices.Sort(l)
	}
	want := slices.Concat(lists...)
	slices.Sort(want)
	if got := mergeAll(t, m, NewLists(lists), rapid.IntRange(1, 50).Draw(t, "batch")); !slices.Equal(got, want) {
		t.Fatalf("merged %v, want %v", got, want)
	}
}

func TestMergersAgreeOnPatterns(t *testing.T) {
	const messages = 5000
	for _, pattern := range Patterns() {
		for _, n := range []int{1, 2, 10, 1000} {
			lists, err := Spread(pattern, n, messages)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range Names() {
				m, _ := New(name)
				dst := make([]uint64, messages+1)
				m.Reset(lists)
				if got := m.Fill(dst); got != messages {
					t.Fatalf("%s, %d lists, %s: %d keys of %d", pattern, n, name, got, messages)
				}
				for i, key := range dst[:messages] {
					if key != uint64(i) {
						t.Fatalf("%s, %d lists, %s: key %d where %d belongs", pattern, n, name, key, i)
					}
				}
			}
		}
	}
}

// TestSkewedIsSkewed: the patterns must differ in what they stand for.
func TestSkewedIsSkewed(t *testing.T) {
	longest := func(p Pattern) (longest int) {
		l, err := Spread(p, 100, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		for i, start := range l.starts {
			end := len(l.keys)
			if i+1 < len(l.starts) {
				end = int(l.starts[i+1])
			}
			longest = max(longest, end-1-int(start))
		}
		return longest
	}
	if n := longest(RoundRobin); n != 100 {
		t.Errorf("round-robin: the longest list has %d of 10000 keys", n)
	}
	if n := longest(Uniform); n < 100 || n > 200 {
		t.Errorf("uniform: the longest list has %d of 10000 keys", n)
	}
	if n := longest(Skewed); n < 1500 {
		t.Errorf("skewed: the longest list has %d of 10000 keys", n)
	}
}

func TestUnknownNames(t *testing.T) {
	if _, err := New("bogus"); err == nil {
		t.Error("a heap that is none was made")
	}
	if _, err := Spread("bogus", 2, 10); err == nil {
		t.Error("a pattern that is none was followed")
	}
	if _, err := Spread(Uniform, 0, 10); err == nil {
		t.Error("messages were spread over no list")
	}
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	lists, err := Spread(Skewed, 100, 2000)
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]uint64, 2001)
	for _, name := range Names() {
		m, _ := New(name)
		most := 0.0
		switch name {
		case "container-push":
			most = math.Inf(1) // what it is there to show
		case Baseline:
			most = 100 // Pop boxes the last item of each list
		}
		if n := testing.AllocsPerRun(3, func() { m.Reset(lists); m.Fill(dst) }); n > most {
			t.Errorf("%s: %v allocations a merge", name, n)
		}
	}
}
