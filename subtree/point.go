package subtree

import (
	"fmt"
	"slices"
	"sort"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// MessageAt returns a copy of the record with a seq. ErrNotFound if it is beyond history, *GoneError if it is older.
//
// It decodes up to one block of every section of the file that holds the seq.
func (s *Store) MessageAt(seq uint64) (record.Record, error) {
	first, last := s.Bounds()
	switch {
	case seq < first:
		return nil, &GoneError{Wanted: seq, Oldest: first}
	case seq > last:
		return nil, fmt.Errorf("subtree: read seq %d: history ends at %d: %w", seq, last, ErrNotFound)
	}
	f, err := s.acquireAt(seq)
	if err != nil {
		return nil, err
	}
	if f == nil {
		first, _ = s.Bounds()
		return nil, &GoneError{Wanted: seq, Oldest: first}
	}
	defer s.release(f)
	p := pointReader{reader: reader{op: "read", cache: s.cache, total: &s.read}, f: f}
	for i := range f.foot.sections {
		rec, err := p.find(&f.foot.sections[i], seq)
		if rec != nil || err != nil {
			return rec, s.noteDamage(err)
		}
	}
	return nil, s.noteDamage(f.corrupt("read", 0, fmt.Sprintf("seq %d is missing", seq), nil))
}

// pointReader looks for single messages in one file, which is held.
type pointReader struct {
	reader
	f   *file
	raw []byte
}

// find looks for a seq in a section; nil if it is not there.
func (p *pointReader) find(sec *section, seq uint64) (record.Record, error) {
	if seq < sec.first || seq > sec.last {
		return nil, nil
	}
	block, err := p.seek(p.f, sec, seq)
	if err != nil || block == sec.blocks {
		return nil, err
	}
	row, err := p.row(p.f, sec, block)
	if err != nil || row.first > seq {
		return nil, err
	}
	return p.last(row, func(rec []byte) bool { return seqOf(rec) == seq })
}

// last returns a copy of the last record of a block that fn accepts; nil if there is none.
func (p *pointReader) last(row *blockRow, fn func(rec []byte) bool) (record.Record, error) {
	raw, err := p.block(p.f, row, p.raw, false)
	if err != nil {
		return nil, err
	}
	p.raw = raw
	var found []byte
	for ; len(raw) > 0; raw = raw[sizeOf(raw):] {
		if fn(raw) {
			found = raw
		}
	}
	if found == nil {
		return nil, nil
	}
	return record.First(slices.Clone(found[:sizeOf(found)])), nil
}

// LastOf returns a copy of the last record of a topic at or below upTo (0: at all) in history. ErrNotFound if there is
// none.
//
// It looks into the directories of the files from upTo back to the message.
func (s *Store) LastOf(id topic.ID, upTo uint64) (record.Record, error) {
	if upTo == 0 {
		upTo = end - 1
	}
	if int(id) >= s.table.Nodes() || s.table.Partition(id) == topic.NoPartition {
		return nil, fmt.Errorf("subtree: last message of topic %d: %w", id, ErrNotFound)
	}
	for {
		first, last := s.Bounds()
		upTo = min(upTo, last)
		if last < first || upTo < first {
			return nil, fmt.Errorf("subtree: last message of %q: %w", s.table.Name(id), ErrNotFound)
		}
		rec, before, err := s.lastIn(id, upTo)
		if rec != nil || err != nil {
			return rec, s.noteDamage(err)
		}
		upTo = before
	}
}

// lastIn looks in the file that holds upTo; before is where to go on if there is nothing.
func (s *Store) lastIn(id topic.ID, upTo uint64) (rec record.Record, before uint64, err error) {
	f, err := s.acquireAt(upTo)
	if err != nil || f == nil {
		return nil, 0, err
	}
	defer s.release(f)
	before = f.meta.FirstSeq - 1
	part := f.foot.find(s.table.PartitionNode(s.table.Partition(id)))
	if part == nil || f.meta.MaxTopic < id {
		return nil, before, nil
	}
	p := pointReader{reader: reader{op: "read", cache: s.cache, total: &s.read}, f: f}
	var sec *section
	var runs []uint32 // first and last block of each run
	err = p.eachOf(f, part, []topic.ID{id}, func(e entry) {
		sec = &part.sections[e.section]
		e.eachRun(func(first, last uint32) { runs = append(runs, first, last) })
	})
	if err != nil || sec == nil {
		return nil, before, err
	}
	rec, err = p.lastOfRuns(sec, runs, id, upTo)
	return rec, before, err
}

// lastOfRuns looks through the runs of blocks that hold a topic from the end.
func (p *pointReader) lastOfRuns(sec *section, runs []uint32, id topic.ID, upTo uint64) (record.Record, error) {
	for i := len(runs) - 1; i > 0; i -= 2 {
		for block := runs[i]; ; block-- {
			row, err := p.row(p.f, sec, block)
			if err != nil {
				return nil, err
			}
			if row.first <= upTo {
				rec, err := p.last(row, func(rec []byte) bool { return topicOf(rec) == id && seqOf(rec) <= upTo })
				if rec != nil || err != nil {
					return rec, err
				}
			}
			if block == runs[i-1] {
				break
			}
		}
	}
	return nil, nil
}

// SeqAtTime is the first seq of history with a time at or after t, unix nanoseconds; one above the last if there is none.
func (s *Store) SeqAtTime(t int64) (uint64, error) {
	files := s.snapshot()
	i := sort.Search(len(files), func(i int) bool { return files[i].meta.LastTime >= t })
	if i == len(files) {
		_, last := s.Bounds()
		return last + 1, nil
	}
	m := &files[i].meta
	if m.FirstTime >= t {
		return m.FirstSeq, nil
	}
	from, err := s.sampleBefore(m.FirstSeq, t)
	if err != nil {
		return 0, err
	}
	c := s.NewCursor(topic.NewMatcher(s.table, everything()), from)
	c.brief = true
	defer c.Close()
	var v View
	defer v.Release()
	for {
		if err := c.Read(&v, Limit{Count: sampleEvery}); err != nil {
			return 0, err
		}
		for _, part := range v.Parts {
			for ; len(part) > 0; part = part[sizeOf(part):] {
				if timeOf(part) >= t {
					return seqOf(part), nil
				}
			}
		}
		if _, last := s.Bounds(); v.Scanned >= last {
			return last + 1, nil
		}
	}
}

// sampleBefore is a seq, near the first one with a time at or after t and not above it, in the file that holds seq.
func (s *Store) sampleBefore(seq uint64, t int64) (uint64, error) {
	f, err := s.acquireAt(seq)
	if err != nil || f == nil {
		return seq, err
	}
	defer s.release(f)
	samples := f.foot.samples
	i := sort.Search(len(samples), func(i int) bool { return samples[i].time >= t })
	if i == 0 {
		return max(seq, f.meta.FirstSeq), nil
	}
	return samples[i-1].seq, nil
}

// everything is the filter of all topics.
func everything() topic.Filters {
	fs, err := topic.ParseFilters([]string{"**"})
	if err != nil {
		panic("subtree: the filter ** is refused: " + err.Error())
	}
	return fs
}
