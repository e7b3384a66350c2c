package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/internal/vfs"
)

func TestLoadMeter(t *testing.T) {
	var m loadMeter
	at := time.Unix(1000, 0)
	for i, step := range []struct {
		after time.Duration
		seq   uint64
		busy  bool
	}{
		{0, 1_000_000, false},                // nothing to compare with: a replayed log is no load
		{time.Second, 1_080_000, true},       // 80 k/s
		{calmSample / 2, 1_080_000, true},    // too soon to tell
		{calmSample, 1_080_100, false},       // hardly anything came
		{10 * time.Second, 1_800_000, false}, // 72 k/s
		{calmSample, 1_800_000 + 4000, true}, // 80 k/s
		{time.Hour, 1_800_000 + 9000, false},
	} {
		at = at.Add(step.after)
		if got := m.sample(at, step.seq); got != step.busy {
			t.Errorf("step %d: busy is %v, want %v", i, got, step.busy)
		}
	}
}

// TestAwaitCalmEnds: a busy stream holds writing up only until there is no more time, or the node stops.
func TestAwaitCalmEnds(t *testing.T) {
	var f feeder
	f.open(t, vfs.NewMem())
	defer f.s.Close()
	h := f.s.history
	always := func() *loadMeter { return &loadMeter{at: time.Now().Add(time.Hour), busy: true} }
	never := func() bool { return false }
	h.awaitCalm(context.Background(), always(), 3*calmSample, never)
	h.awaitCalm(context.Background(), always(), time.Hour, func() bool { return true })
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	h.awaitCalm(ctx, always(), time.Hour, never)
	h.awaitCalm(context.Background(), &loadMeter{}, time.Hour, never)
}
