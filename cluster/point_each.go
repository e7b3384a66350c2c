package cluster

import (
	"context"
	"slices"

	"github.com/cantus-bus/cantus/internal/topic"
)

// Limits of a page of LastEach.
const (
	MaxLastCount     = topic.MaxFilters // messages; lookBack asks for a page's topics in one list of filters
	DefaultLastBytes = 256 << 10

	// fewTopics is how many topics may lie under all filters together for a page to walk the tree below them. If there are more, it
	// passes over the table in order of ids, of which it looks at maxPassed at most.
	fewTopics = 4096
	maxPassed = 1 << 20
	// passedPerCheck is how many ids are looked at between two looks at the context.
	passedPerCheck = 1 << 16
)

// LastQuery asks for the last message of each topic.
type LastQuery struct {
	Filters topic.Filters
	Seq     uint64 // of the snapshot: messages above it do not count. 0: the newest visible
	After   uint64 // 0, or Next of the page before
	Count   int    // messages at most; 0, or more than MaxLastCount: MaxLastCount
	Bytes   int    // of records and topics; one message is always taken. 0: DefaultLastBytes
}

// LastPage is a part of the answer, in an order of topics that is the same on all nodes: the next page may be
// another node's. A page may be empty and not be the last.
type LastPage struct {
	Seq      uint64 // of the snapshot: the next page asks for it
	Messages []Message
	Next     uint64 // After of the next page; 0: there is none
}

// LastEach reads the last message of each topic under filters as they were at one seq, a page at a time. Topics whose last message
// up to there is not kept any more are left out. Errors are as MessageAt's.
//
// A page costs one point read for each topic; for topics that have moved on from the snapshot see lookBack. With more than a few
// thousand topics under the filters it also passes over the topic table from After on.
func (s *Stream) LastEach(ctx context.Context, q LastQuery) (LastPage, error) {
	defer s.holdOpen()()
	if q.Seq != 0 {
		if err := s.checkSnapshot(q.Seq); err != nil {
			return LastPage{}, err
		}
	} else if q.Seq = s.newest(); q.Seq == 0 {
		return LastPage{}, nil
	}
	if q.Count <= 0 || q.Count > MaxLastCount {
		q.Count = MaxLastCount
	}
	if q.Bytes <= 0 {
		q.Bytes = DefaultLastBytes
	}
	page := LastPage{Seq: q.Seq}
	ids, next, err := s.topicsAfter(ctx, &q)
	if err != nil {
		return LastPage{}, err
	}
	page.Next = next
	seqs, err := s.lastSeqs(ctx, ids, q.Seq)
	if err == nil {
		err = s.fill(ctx, &page, ids, seqs, q.Bytes)
	}
	if err != nil {
		return LastPage{}, err
	}
	return page, nil
}

// lastSeqs finds the last seq of each topic at or below upTo; 0: none.
func (s *Stream) lastSeqs(ctx context.Context, ids []topic.ID, upTo uint64) ([]uint64, error) {
	seqs := make([]uint64, len(ids))
	var moved []topic.ID
	for i, id := range ids {
		// All messages up to upTo are counted: they are visible.
		if _, _, seqs[i] = s.table.Stats(id); seqs[i] > upTo {
			seqs[i], moved = 0, append(moved, id)
		}
	}
	if len(moved) == 0 {
		return seqs, nil
	}
	found, err := s.lookBack(ctx, moved, upTo)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		if seq, ok := found[id]; ok {
			seqs[i] = seq
		}
	}
	return seqs, nil
}

// fill reads the messages until the page is full.
func (s *Stream) fill(ctx context.Context, page *LastPage, ids []topic.ID, seqs []uint64, bytes int) error {
	for i, seq := range seqs {
		if seq == 0 {
			continue
		}
		m, err := s.messageAt(ctx, ids[i], seq)
		if isGone(err) {
			continue
		}
		if err != nil {
			return err
		}
		bytes -= len(m.Record) + len(m.Topic)
		if bytes < 0 && len(page.Messages) > 0 {
			page.Next = uint64(ids[i-1])
			return nil
		}
		page.Messages = append(page.Messages, m)
	}
	return nil
}

// topicsAfter lists up to q.Count topics under the filters with ids above q.After, in order; next is where to go on, 0: nothing is left.
func (s *Stream) topicsAfter(ctx context.Context, q *LastQuery) (ids []topic.ID, next uint64, err error) {
	if s.fewBelow(q.Filters) {
		ids = s.walk(q)
	} else if ids, next, err = s.pass(ctx, q); err != nil {
		return nil, 0, err
	}
	if len(ids) > q.Count {
		ids = ids[:q.Count]
		next = uint64(ids[q.Count-1])
	}
	return ids, next, nil
}

// fewBelow tells whether walking the tree is cheaper than passing over all ids.
func (s *Stream) fewBelow(fs topic.Filters) bool {
	n := 0
	for _, f := range fs {
		id, ok := s.table.Lookup(f.Path())
		switch {
		case !ok:
		case f.Subtree():
			n += s.table.TopicsBelow(id)
		default:
			n++
		}
	}
	return n <= fewTopics
}

// walk collects the topics by going down the tree from each filter's path. The filters do not overlap.
func (s *Stream) walk(q *LastQuery) (ids []topic.ID) {
	take := func(id topic.ID) {
		if s.table.IsTopic(id) && uint64(id) > q.After {
			ids = append(ids, id)
		}
	}
	for _, f := range q.Filters {
		id, ok := s.table.Lookup(f.Path())
		if !ok {
			continue
		}
		if !f.Subtree() {
			take(id)
			continue
		}
		for stack := []topic.ID{id}; len(stack) > 0; {
			id, stack = stack[len(stack)-1], stack[:len(stack)-1]
			take(id)
			for c := range s.table.Children(id) {
				stack = append(stack, c)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// pass collects one topic more than the page holds by looking at ids in order. next is the last one looked at if there are more.
func (s *Stream) pass(ctx context.Context, q *LastQuery) (ids []topic.ID, next uint64, err error) {
	m := topic.NewMatcher(s.table, q.Filters)
	end := uint64(s.table.Nodes())
	if q.After >= end {
		return nil, 0, nil
	}
	for id := q.After + 1; id < end; id++ {
		if id-q.After > maxPassed {
			return ids, id - 1, nil
		}
		if id%passedPerCheck == 0 && ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		if s.table.IsTopic(topic.ID(id)) && m.Match(topic.ID(id)) {
			if ids = append(ids, topic.ID(id)); len(ids) > q.Count {
				break
			}
		}
	}
	return ids, 0, nil
}
