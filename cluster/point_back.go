package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/subtree"
	"github.com/cantus-bus/cantus/tipstore"
)

const (
	// backSpan is how many seqs lookBack looks at first; each further stretch is backGrowth times as long as the one before.
	backSpan   = 4096
	backGrowth = 4
)

// lookBack finds, for topics that have moved on from seq upTo, the seqs of their last messages at or below it; a topic without one
// that is kept is not in the result.
//
// All topics are looked for together: back through the tip by its index, in stretches that grow, so that topics with frequent
// messages cost little and the tip is passed at most once; what is still missing then is looked up in history topic by topic, by the
// directories of the files. A topic whose messages all came after upTo would cost all of that for nothing, so what came since is
// counted first where that is the shorter way.
func (s *Stream) lookBack(ctx context.Context, ids []topic.ID, upTo uint64) (map[topic.ID]uint64, error) {
	b := &backSearch{s: s, ctx: ctx, wanted: make(map[topic.ID]bool, len(ids)), found: make(map[topic.ID]uint64, len(ids))}
	for _, id := range ids {
		b.wanted[id] = true
	}
	if err := b.dropNewer(upTo); err != nil {
		return nil, err
	}
	rest, err := b.throughTip(upTo)
	if err == nil && rest > 0 {
		err = b.throughHistory(rest)
	}
	if err != nil {
		return nil, err
	}
	oldest := s.machine.FirstSeq()
	maps.DeleteFunc(b.found, func(_ topic.ID, seq uint64) bool { return seq < oldest })
	return b.found, nil
}

// backSearch is one lookBack. Invariant: a topic is in wanted or in found, or has no message at or below the seq asked for.
type backSearch struct {
	s      *Stream
	ctx    context.Context
	wanted map[topic.ID]bool
	found  map[topic.ID]uint64
}

// dropNewer gives up topics that have no message at or below upTo, if it is not further to the stream's end than to the tip's
// beginning.
func (b *backSearch) dropNewer(upTo uint64) error {
	first, last := b.s.tip.Bounds()
	if upTo < first || last-upTo > upTo-first {
		return nil
	}
	since := make(map[topic.ID]uint64, len(b.wanted))
	err := b.scan(upTo+1, last, func(id topic.ID, _ uint64) { since[id]++ })
	if isGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	// The counts of the table are read last. What they say may be more than what was visible at the scan, never less: so a topic with
	// no more messages than came since had none before.
	for id := range b.wanted {
		if messages, _, _ := b.s.table.Stats(id); messages <= since[id] {
			delete(b.wanted, id)
		}
	}
	return nil
}

// throughTip looks back from a seq to the tip's beginning; below is the seq from which to go on elsewhere, 0: nowhere.
func (b *backSearch) throughTip(from uint64) (below uint64, err error) {
	for span := uint64(backSpan); len(b.wanted) > 0; {
		first, _ := b.s.tip.Bounds()
		if from < first {
			return from, nil
		}
		start := first
		if from-first >= span {
			start = from - span + 1
		}
		seen := make(map[topic.ID]uint64)
		err := b.scan(start, from, func(id topic.ID, seq uint64) { seen[id] = seq })
		if isGone(err) {
			continue // the tip's beginning has moved: look again, at what is left of the stretch
		}
		if err != nil {
			return 0, err
		}
		for id, seq := range seen {
			b.found[id] = seq
			delete(b.wanted, id)
		}
		from, span = start-1, span*backGrowth
	}
	return 0, nil
}

// throughHistory looks up the topics that are left, one by one.
func (b *backSearch) throughHistory(from uint64) error {
	if b.s.history == nil {
		return nil
	}
	for id := range b.wanted {
		if err := b.ctx.Err(); err != nil {
			return err
		}
		rec, err := b.s.history.store.LastOf(id, from)
		if errors.Is(err, subtree.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cluster: last message of %q at or below seq %d: %w", b.s.table.Name(id), from, err)
		}
		b.found[id] = rec.Seq()
	}
	return nil
}

// scan calls fn for every message of the wanted topics from seq first to last, in order; first is not 0. All of it is visible.
func (b *backSearch) scan(first, last uint64, fn func(id topic.ID, seq uint64)) error {
	if first > last || len(b.wanted) == 0 {
		return nil
	}
	names := make([]string, 0, len(b.wanted))
	for id := range b.wanted {
		names = append(names, b.s.table.Name(id))
	}
	fs, err := topic.ParseFilters(names)
	if err != nil {
		return fmt.Errorf("cluster: look back for %d topics: %w", len(names), err)
	}
	c := b.s.tip.NewCursor(topic.NewMatcher(b.s.table, fs), first)
	defer c.Close()
	var v tipstore.View
	defer v.Release()
	for c.Position() < last {
		if err := b.ctx.Err(); err != nil {
			return err
		}
		if err := c.Read(&v, tipstore.Limit{UpTo: last}); err != nil {
			return err
		}
		for _, run := range v.Parts {
			for ; len(run) > 0; run = run[record.Scan(run):] {
				fn(topic.ID(record.Record(run).Topic()), record.Record(run).Seq())
			}
		}
	}
	return nil
}

func isGone(err error) bool {
	var gone *tipstore.GoneError
	return errors.As(err, &gone)
}
