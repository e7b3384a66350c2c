package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/internal/leak"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/jepsen/history"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// TestTopics: the same seed makes the same topics; all are valid, and every subset matches at least one of them.
func TestTopics(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		topics := tree(r, "x", 40)
		if again := tree(rand.New(rand.NewPCG(seed, 1)), "x", 40); !slices.Equal(topics, again) {
			t.Fatal("the seed does not decide")
		}
		for _, name := range topics {
			if err := topic.Validate(name); err != nil {
				t.Fatal(err)
			}
		}
		filters, err := topic.ParseFilters(subset(r, topics))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(topics, filters.Match) {
			t.Errorf("seed %d: %v matches none of %v", seed, filters, topics)
		}
	}
}

// TestOutcome: an unknown fate is never taken for a refusal, nor the other way round.
func TestOutcome(t *testing.T) {
	for _, c := range []struct {
		err  error
		want history.Outcome
	}{
		{client.ErrUnavailable, history.Refused},
		{client.ErrPreconditionFailed, history.Refused},
		{client.ErrFenced, history.Refused},
		{client.ErrUnknownFate, history.Unknown},
		{fmt.Errorf("flush: %w", errors.Join(client.ErrFenced, client.ErrUnknownFate)), history.Unknown},
		{context.DeadlineExceeded, history.Unknown},
	} {
		if got := outcome(c.err); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
}

// TestSource: parts have random numbers of their own, the same for the same seed.
func TestSource(t *testing.T) {
	world := func() *World { return NewWorld(t.Context(), nil, nil, 7, 0) }
	a, b := world(), world()
	defer a.StopReading(0)
	defer b.StopReading(0)
	if x, y := a.source("p").Uint64(), b.source("p").Uint64(); x != y {
		t.Error("one seed, two sequences")
	}
	if x, y := a.source("p").Uint64(), a.source("q").Uint64(); x == y {
		t.Error("two parts, one sequence")
	}
}

// TestRefusedPrecondition: what the client tells of a failed precondition is in the history.
func TestRefusedPrecondition(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h")
	record, err := history.Create(path, history.Header{})
	if err != nil {
		t.Fatal(err)
	}
	w := NewWorld(t.Context(), nil, record, 1, 0)
	defer w.StopReading(0)
	e := &history.Publish{Messages: []history.Sent{{ID: 1, Topic: "t"}}}
	w.settleAs(e, history.Refused, &client.Error{Code: client.CodePreconditionFailed, Index: 1, Detail: 9})
	if !e.Failed || e.FailedIndex != 1 || e.FailedSeq != 9 {
		t.Errorf("%+v", e)
	}
	if err := record.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFind(t *testing.T) {
	for _, w := range List() {
		if got, err := Find(w.Name); err != nil || got.Name != w.Name || w.About == "" {
			t.Errorf("%s: %v", w.Name, err)
		}
	}
	if _, err := Find("nothing"); err == nil {
		t.Error("found nothing")
	}
}
