package subtree

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
)

// stream is a stream's messages in memory: the slow obvious model of history.
type stream struct {
	table *topic.Table
	recs  [][]byte // seq i+1, padded
	names []string // topics
	cuts  []uint64 // last seq of each window sealed
	time  int64
}

func newStream() *stream { return &stream{table: topic.NewTable(0), time: 1_700_000_000_000_000_000} }

func (s *stream) add(tb tester, name string, payload []byte) {
	id, _, err := s.table.Intern([]byte(name))
	if err != nil {
		tb.Fatal(err)
	}
	rec, err := record.AppendRecord(nil, uint32(id), nil, payload)
	if err != nil {
		tb.Fatal(err)
	}
	seq := uint64(len(s.recs) + 1)
	record.Stamp(rec, uint32(id), seq, s.time)
	s.table.Add(id, 1, uint64(len(payload)), seq)
	s.recs = append(s.recs, rec)
	s.names = append(s.names, name)
}

func (s *stream) last() uint64 { return uint64(len(s.recs)) }

// cut ends a window at the last message.
func (s *stream) cut() Window {
	w := s.window(len(s.cuts)+1, s.last())
	s.cuts = append(s.cuts, s.last())
	return w
}

func (s *stream) window(number int, last uint64) Window {
	first := uint64(1)
	if number > 1 {
		first = s.cuts[number-2] + 1
	}
	return Window{Number: uint64(number), FirstSeq: first, LastSeq: last}
}

// runs feeds a window's messages in runs of a few.
func (s *stream) runs(w Window) func() ([]byte, error) {
	next := w.FirstSeq
	return func() ([]byte, error) {
		if next > w.LastSeq {
			return nil, io.EOF
		}
		var run []byte
		for i := 0; i < 7 && next <= w.LastSeq; i++ {
			run = append(run, s.recs[next-1]...)
			next++
		}
		return run, nil
	}
}

// want is what a read of some filters from next up to a seq returns.
func (s *stream) want(fs topic.Filters, next, upTo uint64) []byte {
	var b []byte
	for seq := max(next, 1); seq <= min(upTo, s.last()); seq++ {
		if fs.Match(s.names[seq-1]) {
			b = append(b, s.recs[seq-1]...)
		}
	}
	return b
}

// hashPlan splits by a hash of the topic: any pure function will do for a plan.
type hashPlan struct{ n, salt int }

func (p hashPlan) Stores() int { return p.n }

func (p hashPlan) StoreOf(name string) int {
	h := fnv.New32a()
	fmt.Fprint(h, name, p.salt)
	return int(h.Sum32() % uint32(p.n))
}

// plans gives every partition of the table a plan.
func (s *stream) plans(salt int) (list []PartitionPlan) {
	for p := range topic.PartitionID(s.table.Partitions()) {
		node := s.table.PartitionNode(p)
		if n := (int(node) + salt) % 5; n > 0 {
			list = append(list, PartitionPlan{node, hashPlan{n, salt}})
		}
	}
	return list
}

func mustFilters(tb tester, list ...string) topic.Filters {
	tb.Helper()
	fs, err := topic.ParseFilters(list)
	if err != nil {
		tb.Fatal(err)
	}
	return fs
}

func mustOpen(tb tester, fs vfs.FS, s *stream, o Options) *Store {
	tb.Helper()
	st, err := Open(fs, "history", s.table, o)
	if err != nil {
		tb.Fatal(err)
	}
	st.spillLimit = 3000
	return st
}

func mustSeal(tb tester, st *Store, s *stream, w Window) {
	tb.Helper()
	if err := st.Seal(w, s.runs(w)); err != nil {
		tb.Fatal(err)
	}
}

func mustRewrite(tb tester, st *Store, g Generation) {
	tb.Helper()
	if err := st.Rewrite(context.Background(), g, nil); err != nil {
		tb.Fatal(err)
	}
}

// readAll reads from next to the end of history, limit after limit, and checks what each View says of itself.
func readAll(st *Store, fs topic.Filters, next uint64, limit func() Limit) ([]byte, error) {
	c := st.NewCursor(topic.NewMatcher(st.table, fs), next)
	defer c.Close()
	return drainCursor(st, c, limit)
}

func drainCursor(st *Store, c *Cursor, limit func() Limit) ([]byte, error) {
	var all []byte
	var v View
	defer v.Release()
	for {
		before, l := c.Position(), limit()
		if err := c.Read(&v, l); err != nil {
			if c.Position() != before {
				return all, errors.New("a failed read moved the cursor")
			}
			return all, err
		}
		if err := checkView(&v, l, before, c.Position()); err != nil {
			return all, err
		}
		for _, p := range v.Parts {
			all = append(all, p...)
		}
		if _, last := st.Bounds(); v.Scanned >= last {
			return all, nil
		}
	}
}

func checkView(v *View, l Limit, before, after uint64) error {
	count, size := 0, 0
	last := before
	for _, p := range v.Parts {
		size += len(p)
		for ; len(p) > 0; p = p[sizeOf(p):] {
			seq := seqOf(p)
			if seq <= last || count == 0 && seq != v.First {
				return fmt.Errorf("seq %d after %d, view says first %d", seq, last, v.First)
			}
			last = seq
			count++
		}
	}
	l.normalise()
	switch {
	case count != v.Count || size != v.Bytes || count > 0 && v.Last != last || count == 0 && (v.First != 0 || v.Last != 0):
		return fmt.Errorf("view says %+v, holds %d records, %d bytes, last %d", *v, count, size, last)
	case v.Scanned != after || v.Scanned < last:
		return fmt.Errorf("scanned %d, position %d, last %d", v.Scanned, after, last)
	case count > l.Count || count > 1 && size > l.Bytes || last > l.UpTo && count > 0:
		return fmt.Errorf("limit %+v, got %d records, %d bytes, last %d", l, count, size, last)
	}
	return nil
}

func noLimit() Limit { return Limit{} }

func randomTopic(r *rand.Rand) string {
	letters := []string{"a", "b", "c", "d"}
	name := letters[r.Intn(3)]
	for d := r.Intn(4); d > 0; d-- {
		name += "/" + letters[r.Intn(4)]
	}
	return name
}

func randomFilters(r *rand.Rand) []string {
	if r.Intn(5) == 0 {
		return []string{"**"}
	}
	var list []string
	for n := 1 + r.Intn(3); n > 0; n-- {
		f := randomTopic(r)
		if r.Intn(2) == 0 {
			f += "/**"
		}
		list = append(list, f)
	}
	return list
}

// fill adds n messages on random topics.
func (s *stream) fill(tb tester, r *rand.Rand, n int, large bool) {
	for range n {
		size := r.Intn(200)
		if large && r.Intn(40) == 0 {
			size = r.Intn(200_000)
		}
		payload := bytes.Repeat([]byte{byte(r.Int())}, size)
		if r.Intn(2) == 0 {
			r.Read(payload)
		}
		if r.Intn(3) == 0 {
			s.time += int64(r.Intn(1000))
		}
		s.add(tb, randomTopic(r), payload)
	}
}

// same fails unless got holds the same records as want.
func same(got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	return fmt.Errorf("records differ: got seqs %v, want %v", seqsOf(got), seqsOf(want))
}

func seqsOf(run []byte) (list []uint64) {
	for ; len(run) >= record.HeaderSize; run = run[sizeOf(run):] {
		list = append(list, binary.LittleEndian.Uint64(run[8:]))
		if len(list) > 200 {
			break
		}
	}
	return list
}

// tester is what the helpers need of a test, rapid's too.
type tester interface {
	Helper()
	Fatal(args ...any)
}
