package cluster

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cantus-bus/cantus/subtree"
)

// drawSpan covers the windows first to last by files of random lengths. Window w holds the seqs 10w to 10w+9.
func drawSpan(t *rapid.T, name string, first, last uint64) (s span) {
	for w := first; w <= last; {
		n := min(rapid.Uint64Range(1, 4).Draw(t, name), last-w+1)
		m := subtree.Meta{Kind: subtree.KindWindow, Number: w, FirstWindow: w, LastWindow: w + n - 1, FirstSeq: 10 * w, LastSeq: 10*(w+n) - 1}
		if n > 1 {
			m.Kind, m.Number = subtree.KindGeneration, 100*w+n
		}
		s = append(s, m)
		w += n
	}
	return s
}

// install is what subtree.Store.Install promises: run takes its place, own files that adjoin it stay.
func install(own, run span) span {
	if len(run) == 0 {
		return own
	}
	out := slices.Clone(run)
	for i := len(own) - 1; i >= 0; i-- {
		if own[i].LastWindow+1 == out[0].FirstWindow {
			out = slices.Insert(out, 0, own[i])
		}
	}
	for _, m := range own {
		if m.FirstWindow == out[len(out)-1].LastWindow+1 {
			out = append(out, m)
		}
	}
	return out
}

// TestFilesToGet: whatever files the two nodes have, what is installed leaves the node with all windows up to the wanted one, whole,
// and what it does not have to get it keeps.
func TestFilesToGet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.Uint64Range(1, 10).Draw(t, "leader's first")
		listing := drawSpan(t, "leader's", first, first+rapid.Uint64Range(0, 20).Draw(t, "leader has"))
		to := rapid.Uint64Range(first, listing[len(listing)-1].LastWindow).Draw(t, "to")
		ownFirst := rapid.Uint64Range(1, 10).Draw(t, "own first")
		var own span
		if n := rapid.Uint64Range(0, 25).Draw(t, "own has"); n > 0 {
			own = drawSpan(t, "own", ownFirst, ownFirst+n-1)
		}
		damaged := map[uint64]bool{}
		for i := range own {
			damaged[own[i].Number] = rapid.IntRange(0, 5).Draw(t, "damaged") == 0
		}
		good := func(m *subtree.Meta) bool { return !damaged[m.Number] }
		run, ok := filesToGet(own, listing, good, to)
		if !ok || !run.adjacent() {
			t.Fatalf("run %v, %v", run, ok)
		}
		after := install(own, run)
		if !after.adjacent() {
			t.Fatalf("not adjacent: %v", after)
		}
		for w := first; w <= to; w++ {
			i := after.at(w)
			if i < 0 {
				t.Fatalf("window %d is missing in %v; own %v, leader's %v, run %v", w, after, own, listing, run)
			}
			if fetched := run.at(w) >= 0; !fetched && !good(&after[i]) {
				t.Fatalf("window %d is damaged", w)
			}
		}
	})
}

// TestRunFor: what a repair installs covers the damaged file, and no window that was there is lost.
func TestRunFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		own := drawSpan(t, "own", 5, 25)
		listing := drawSpan(t, "peer's", rapid.Uint64Range(1, 15).Draw(t, "from"), rapid.Uint64Range(15, 30).Draw(t, "to"))
		bad := own[rapid.IntRange(0, len(own)-1).Draw(t, "damaged")]
		run, ok := runFor(own, listing, bad.FirstWindow, bad.LastWindow)
		if !ok {
			return // the peer cannot help
		}
		after := install(own, run)
		if run.at(bad.FirstWindow) < 0 || run.at(bad.LastWindow) < 0 || !after.adjacent() {
			t.Fatalf("run %v for %v leaves %v", run, bad, after)
		}
		for w := uint64(5); w <= 25; w++ {
			if after.at(w) < 0 {
				t.Fatalf("window %d is lost: own %v, peer's %v, run %v", w, own, listing, run)
			}
		}
	})
	same := drawSpanFixed(1, 8)
	if run, ok := runFor(same, same, 3, 3); !ok || len(run) != 1 {
		t.Errorf("a file that the peer has too: %v, %v", run, ok)
	}
}

func drawSpanFixed(first, last uint64) (s span) {
	for w := first; w <= last; w++ {
		s = append(s, subtree.Meta{Kind: subtree.KindWindow, Number: w, FirstWindow: w, LastWindow: w, FirstSeq: 10 * w, LastSeq: 10*w + 9})
	}
	return s
}
