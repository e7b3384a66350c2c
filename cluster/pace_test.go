package cluster

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/cantus-bus/cantus/internal/bubble"
	"github.com/cantus-bus/cantus/tipstore"
)

// TestPauseAfterRefusalEndsWithTheLeadership: a node that led and was refused last does not look again and again as a follower.
func TestPauseAfterRefusalEndsWithTheLeadership(t *testing.T) {
	r := newRig(t, nil)
	r.stop()
	now := time.Now()
	r.p.retryAt = now.Add(retryRefused)
	if d := r.p.step(now.Add(2 * retryRefused)); d != idleWait {
		t.Errorf("a follower with nothing to do looks again after %v, want %v", d, idleWait)
	}
}

// TestWaitForTheRestOfAnEntryPauses has an entry whose messages are counted and not shown for long, as when applying waits for the disk.
func TestWaitForTheRestOfAnEntryPauses(t *testing.T) {
	s, err := NewStream(StreamOptions{Tip: tipstore.Options{ChunkBytes: 2 << 20, SizeBytes: 8 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	bubble.Test(t, t.Name(), func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.awaitVisible(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the wait ended with %v", err)
		}
	})
}

// TestPausesForALeaderGrow adds up the pauses of one request: they are few, and the first are short.
func TestPausesForALeaderGrow(t *testing.T) {
	var sum time.Duration
	for n, pause := 1, retryRefused; sum < DefaultPublishWait; n, pause = n+1, longer(pause) {
		if pause < retryRefused || pause > retryLeader || n > 60 {
			t.Fatalf("pause %d, after %v, is %v", n, sum, pause)
		}
		sum += pause
	}
}

// TestRepeatBacksOff counts attempts at what fails, and at what works again.
func TestRepeatBacksOff(t *testing.T) {
	bubble.Test(t, t.Name(), func(t *testing.T) {
		var problem trouble
		problem.init(hclog.NewNullLogger(), "testing")
		ctx, cancel := context.WithCancel(t.Context())
		var attempts atomic.Int64
		var works atomic.Bool
		go problem.repeat(ctx, time.Second, time.Minute, func() error {
			attempts.Add(1)
			if works.Load() {
				return nil
			}
			return errors.New("no")
		})
		time.Sleep(time.Hour)
		if n := attempts.Swap(0); n < 60 || n > 70 {
			t.Errorf("%d attempts in an hour, want one a minute and a few in the beginning", n)
		}
		works.Store(true)
		time.Sleep(3 * time.Minute)
		if n := attempts.Load(); n < 100 || problem.get() != "" {
			t.Errorf("%d attempts in three minutes, problem %q, want one a second and none", n, problem.get())
		}
		cancel()
	})
}

// TestJoinTargets: who is gone is looked for, and with it the configured addresses; who cannot come back is not.
func TestJoinTargets(t *testing.T) {
	g := &gossip{addr: "self", folder: &folder{}}
	g.folder.mu.id.Removed = []string{"removed"}
	join := []string{"self", "seed"}
	for _, c := range []struct {
		name    string
		members []member
		want    []string
	}{
		{"alone", nil, []string{"seed"}},
		{"all here", []member{{id: "a", addr: "a", alive: true}}, nil},
		{"gone", []member{{id: "a", addr: "a", alive: true}, {id: "b", addr: "b"}}, []string{"b", "seed"}},
		{"left", []member{{id: "a", addr: "a", alive: true}, {id: "b", addr: "b", left: true}}, nil},
		{"removed", []member{{id: "a", addr: "a", alive: true}, {id: "removed", addr: "b"}}, nil},
		{"replaced", []member{{id: "a", addr: "a", alive: true}, {id: "z", addr: "a"}}, nil},
		{"only a removed one", []member{{id: "removed", addr: "b"}}, []string{"seed"}},
	} {
		g.mu.members = map[string]*member{}
		for _, m := range c.members {
			g.mu.members[m.id] = &m
		}
		if got := g.joinTargets(slices.Clone(join)); !slices.Equal(got, c.want) {
			t.Errorf("%s: joins %v, want %v", c.name, got, c.want)
		}
	}
}
