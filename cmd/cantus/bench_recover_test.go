package main

import (
	"strings"
	"testing"

	"github.com/cantus-bus/cantus/internal/dataset"
	"github.com/cantus-bus/cantus/internal/load"
)

// TestBenchRecover: what readers get is what the file holds, and the figures fit to each other.
func TestBenchRecover(t *testing.T) {
	const rows = 8_000
	path, list := smallStream(t, rows)
	s := startServer(t, "--dev", "--set", "history.window_bytes=64KiB", "--set", "tip.size=8MiB", "--set", "tip.chunk=2MiB")
	for range 20 { // far more than the tip holds
		must(t, cantus(t, s.env, "replay", path, "--payload", "random"))
	}
	for _, filter := range []string{"**", "ansible/lib/**", "etcd/**", "nobody/**"} {
		for _, readers := range []string{"1", "3"} {
			r := decode[load.RecoverResult](t, must(t, cantus(t, s.env, "bench", "recover", filter, "--readers", readers, "--json")))
			want := dataset.CountMatches(list, []string{filter})
			factor := uint64(20 * r.Readers)
			if r.Messages != want.Messages*factor || r.Bytes != want.Bytes*factor || r.FromHistory+r.FromTip != r.Messages || r.ElapsedMS <= 0 {
				t.Errorf("%s by %s: %+v, want %+v each time", filter, readers, r, want)
			}
			if want.Messages > 0 && (r.FromHistory == 0 || r.DiskBytes == 0 || r.Amplification < 0.5 || r.TTFBMS <= 0 || r.TTFBMS > r.ElapsedMS) {
				t.Errorf("%s by %s: %+v", filter, readers, r)
			}
		}
	}
	if r := must(t, cantus(t, s.env, "bench", "recover", "etcd/**")); !strings.Contains(r.out, "amplification") {
		t.Errorf("for people: %s", r.out)
	}
	if r := must(t, cantus(t, s.env, "bench", "recover", "nobody/**")); !strings.Contains(r.out, "nowhere: there is no message") {
		t.Errorf("no message: %s", r.out)
	}
	if r := cantus(t, s.env, "bench", "recover", "etcd/**", "--at", "nowhere"); r.code != 1 || !strings.Contains(r.err, "nowhere") {
		t.Errorf("no such node: %d %s", r.code, r.err)
	}
}

// TestRecoverySource: figures of the tip are not taken for those of history.
func TestRecoverySource(t *testing.T) {
	for _, c := range []struct {
		history, tip uint64
		want         string
		howTo        bool
	}{
		{0, 0, "nowhere", false}, {0, 7, "the tip alone", true}, {1, 7, "history for 12.5% of", true}, {1, 1, "history for 50% of", false}, {7, 0, "history alone", false},
	} {
		got := recoverySource(load.RecoverResult{Messages: c.history + c.tip, FromHistory: c.history, FromTip: c.tip})
		if !strings.HasPrefix(got, c.want) || strings.Contains(got, howToMeasureHistory) != c.howTo {
			t.Errorf("%d from history, %d from the tip: %s", c.history, c.tip, got)
		}
	}
}
