package cluster

import (
	"context"
	"testing"

	"github.com/cantus-bus/cantus/fsm"
)

// Tiny batches hold far more memory than their bytes: the room must count it.
func TestTinyBatchesTakeRoom(t *testing.T) {
	const fit = 16
	r := newRig(t, func(o *Options) { o.MaxInflight = fit * (batchCost + 128) })
	var waiting []outcomeOf
	for range fit {
		waiting = append(waiting, r.submit("x"))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.p.submit(ctx, &Submission{Batch: make([]byte, 48)}); err == nil {
		t.Error("there is room for more batches than the limit allows")
	}
	r.stop()
	for _, o := range waiting {
		r.want(o, fsm.ShuttingDown)
	}
	if !r.p.room.TryAcquire(r.p.limit) {
		t.Error("room was not given back")
	}
}
