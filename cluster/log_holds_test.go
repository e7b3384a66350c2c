package cluster

import (
	"math"
	"testing"
	"time"
)

func TestLogHoldsLapse(t *testing.T) {
	h, now := newLogHolds(), time.Unix(1000, 0)
	h.now = func() time.Time { return now }
	if h.lowest() != math.MaxUint64 {
		t.Error("something is held")
	}
	h.hold("a", 50)
	h.hold("b", 30)
	h.hold("b", 70)
	if h.lowest() != 50 || !h.has(70) || h.has(30) {
		t.Errorf("lowest %d", h.lowest())
	}
	now = now.Add(holdLapse)
	h.hold("b", 60)
	now = now.Add(time.Second)
	if h.lowest() != 60 || h.has(50) {
		t.Errorf("a's hold has not lapsed: %d", h.lowest())
	}
	h.hold("a", 40)
	if h.keep(func(id string) bool { return id != "a" }); h.lowest() != 60 {
		t.Errorf("held from %d for a node that is gone", h.lowest())
	}
	now = now.Add(2 * holdLapse)
	if h.lowest() != math.MaxUint64 || len(h.mu.holds) != 0 {
		t.Error("holds last for ever")
	}
}
