package load

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/internal/dataset"
	"github.com/cantus-bus/cantus/internal/leak"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

func TestParseSpeed(t *testing.T) {
	for text, want := range map[string]Speed{"max": 0, "original": 1, "20x": 20, "0.5x": 0.5} {
		if got, err := ParseSpeed(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "fast", "20", "-1x", "0x", "x", "NaNx", "Infx"} {
		if got, err := ParseSpeed(text); err == nil {
			t.Errorf("%q accepted as %v", text, got)
		}
	}
}

func TestEvents(t *testing.T) {
	e := &events{rng: dataset.Rand{State: 1}}
	seen := map[string]bool{}
	for range 1000 {
		b := e.next(128)
		var v struct {
			Type, Player, Team string
			Score              int
		}
		if err := json.Unmarshal(b, &v); err != nil || len(b) != 128 || v.Type == "" || v.Score < 10_000 {
			t.Fatalf("%q: %v", b, err)
		}
		seen[string(b)] = true
	}
	if len(seen) != 1000 {
		t.Errorf("only %d of 1000 events differ", len(seen))
	}
	for _, size := range []int{1, 50, 108, 109, 110, 111, 112, 113, 114, 115, 116, 1000} {
		if b := e.next(size); len(b) != size {
			t.Errorf("%d bytes instead of %d", len(b), size)
		}
	}
}

func TestValidate(t *testing.T) {
	good := PublishOptions{Clients: 1, Messages: 1, Size: 1, Topics: 1}
	if err := good.validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*PublishOptions){
		"clients":  func(o *PublishOptions) { o.Clients = 0 },
		"messages": func(o *PublishOptions) { o.Messages = 0 },
		"size":     func(o *PublishOptions) { o.Size = client.MaxPayload + 1 },
		"topics":   func(o *PublishOptions) { o.Topics = 0 },
		"inflight": func(o *PublishOptions) { o.Inflight = -1 },
		"rate":     func(o *PublishOptions) { o.Rate = -1 },
	} {
		o := good
		change(&o)
		if _, err := Publish(t.Context(), o); err == nil {
			t.Errorf("bad %s accepted", name)
		}
	}
	if _, err := Replay(t.Context(), ReplayOptions{}); err == nil {
		t.Error("no producers accepted")
	}
}

func TestMeter(t *testing.T) {
	settled := int64(0)
	a, b := newMeter(func(n int64) { settled += n }), newMeter(nil)
	a.settle(90, 101, 10*time.Millisecond, nil)
	a.settle(5, 0, 10*time.Millisecond, nil) // a duplicate whose place is forgotten
	b.settle(4, 41, 100*time.Millisecond, nil)
	b.settle(1, 300, time.Hour, nil) // above the histogram's range
	failure := errors.New("no")
	b.settle(3, 0, 0, failure)
	b.fail(2, errors.New("later"))
	r := merge([]*meter{a, b}, 105, 2_000_000, 2*time.Second)
	near := func(got, want float64) bool { return math.Abs(got-want) <= want/500 }
	if r.Published != 105 || r.Acked != 100 || r.Refused != 5 || r.FirstError != failure || r.FirstSeq != 41 || r.LastSeq != 300 {
		t.Errorf("%+v", r)
	}
	if r.PerSecond != 50 || r.MBPerS != 1 || r.ElapsedMS != 2000 || settled != 95 {
		t.Errorf("%+v, progress %d", r, settled)
	}
	if !near(r.P50MS, 10) || !near(r.P99MS, 100) || !near(r.MaxMS, 600_000) {
		t.Errorf("%+v", r)
	}
}

// TestReplayClock: rows are due at their distance from the first, divided by the speed.
func TestReplayClock(t *testing.T) {
	c := &replayClock{speed: 10}
	if got := c.ahead(1000); got > 0 {
		t.Errorf("the first row waits %v", got)
	}
	if got := c.ahead(1600); got > time.Minute || got < 30*time.Second {
		t.Errorf("600 s later at 10x: %v ahead", got)
	}
	if got := (&replayClock{}).ahead(1 << 40); got != 0 {
		t.Errorf("at full speed: %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.wait(ctx, 1<<40); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled wait: %v", err)
	}
}

func TestPacer(t *testing.T) {
	p := NewPacer(1000)
	began := time.Now()
	for range 50 {
		if err := p.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took < 45*time.Millisecond {
		t.Errorf("50 calls at 1000 a second took %v", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p = NewPacer(0.001)
	_ = p.Wait(ctx)
	if err := p.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled wait: %v", err)
	}
	if err := NewPacer(0).Wait(ctx); err != nil {
		t.Errorf("no rate, no wait: %v", err)
	}
}

func TestTopicNames(t *testing.T) {
	names := topicNames(2001)
	if names[0] != "bench/p0/t0" || names[2000] != "bench/p2/t0" {
		t.Errorf("%s, %s", names[0], names[2000])
	}
}

// TestShare: every topic is one publisher's, and there is one for each.
func TestShare(t *testing.T) {
	for _, n := range []int{3, 4, 5, 1001} {
		names, got := topicNames(n), []string(nil)
		for i := range 3 {
			share := (&publisher{index: i}).share(names, 3)
			if len(share) == 0 {
				t.Fatalf("none of %d topics for publisher %d of 3", n, i)
			}
			got = append(got, share...)
		}
		if !slices.Equal(got, names) {
			t.Errorf("%d topics are divided into %q", n, got)
		}
	}
	if share := (&publisher{index: 2}).share(topicNames(2), 3); len(share) != 2 {
		t.Errorf("too few to divide, but one has %q", share)
	}
}

// TestTooManyClientsIsAnError: a node that takes no more connections is an error within the time to connect, not a wait for ever.
func TestTooManyClientsIsAnError(t *testing.T) {
	o := PublishOptions{Connect: client.Options{Servers: []string{"127.0.0.1:1"}}, Clients: 100, Messages: 1, Size: 1, Topics: 1}
	if _, err := Publish(t.Context(), o); err == nil || !strings.Contains(err.Error(), "of 100") {
		t.Errorf("nobody there: %v", err)
	}
}
