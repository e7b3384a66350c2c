package subtree

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/cantus-bus/cantus/internal/topic"
)

// Limiter slows a rewrite down.
type Limiter interface {
	// Wait returns when this many bytes of records may be read, or with ctx's error.
	Wait(ctx context.Context, bytes int) error
}

// limitEvery is how many bytes of records a rewrite reads between two looks at its limiter and its context.
const limitEvery = 256 << 10

// Rewrite builds the generation's file from the files that now cover its windows and puts it in their place. Readers go on
// beside it; the files replaced are removed when no read uses them. A generation that is there already, or that a later
// one has replaced, is left alone, and so is one whose windows were all dropped. ErrOutOfOrder if its range is not sealed,
// does not cover whole files, or was dropped in part. After an error history is as before. l may be nil.
func (s *Store) Rewrite(ctx context.Context, g Generation, l Limiter) error {
	s.rewriting.Lock()
	defer s.rewriting.Unlock()
	err := errReplaced
	for errors.Is(err, errReplaced) { // each round needs another change of the files
		if err = ctx.Err(); err == nil {
			err = s.tryRewrite(ctx, g, l)
		}
	}
	if err != nil {
		return fmt.Errorf("subtree: rewrite windows %d to %d as generation %d: %w", g.FirstWindow, g.LastWindow, g.Number, err)
	}
	return nil
}

// errReplaced says that an Install or a Drop has changed the files of a rewrite.
var errReplaced = errors.New("a file was replaced meanwhile")

func (s *Store) tryRewrite(ctx context.Context, g Generation, l Limiter) error {
	if first, _ := s.Windows(); g.FirstWindow > 0 && g.FirstWindow <= g.LastWindow && g.LastWindow < first {
		return nil
	}
	files, err := s.cover(g.FirstWindow, g.LastWindow)
	if err != nil || superseded(files, g) {
		return err
	}
	return s.rewrite(ctx, g, files, l)
}

// superseded tells whether files are one generation, this or a later one.
func superseded(files []*file, g Generation) bool {
	return len(files) == 1 && files[0].meta.Kind == KindGeneration && files[0].meta.Number >= g.Number
}

// cover returns the files that together hold a range of windows and nothing else, or the one generation that holds more.
func (s *Store) cover(first, last uint64) ([]*file, error) {
	var list []*file
	for _, f := range s.snapshot() {
		if f.meta.LastWindow >= first && f.meta.FirstWindow <= last {
			list = append(list, f)
		}
	}
	oldest, newest := s.Windows()
	switch {
	case first == 0 || last < first || len(list) == 0 || list[0].meta.FirstWindow > first || list[len(list)-1].meta.LastWindow < last:
		return nil, fmt.Errorf("history holds windows %d to %d: %w", oldest, newest, ErrOutOfOrder)
	case len(list) == 1 && list[0].meta.Kind == KindGeneration:
		return list, nil
	case list[0].meta.FirstWindow != first || list[len(list)-1].meta.LastWindow != last:
		return nil, fmt.Errorf("the range cuts through a generation: %w", ErrOutOfOrder)
	}
	return list, nil
}

func (s *Store) rewrite(ctx context.Context, g Generation, files []*file, l Limiter) error {
	first, last := &files[0].meta, &files[len(files)-1].meta
	if first.FirstWindow != g.FirstWindow || last.LastWindow != g.LastWindow {
		return fmt.Errorf("generation %d holds windows %d to %d: %w", first.Number, first.FirstWindow, last.LastWindow, ErrOutOfOrder)
	}
	meta := Meta{
		Kind: KindGeneration, Number: g.Number, FirstWindow: g.FirstWindow, LastWindow: g.LastWindow,
		FirstSeq: first.FirstSeq, LastSeq: last.LastSeq,
	}
	path := filepath.Join(s.dir, meta.Name())
	w, err := createFile(s.fs, path, meta)
	if err != nil {
		return err
	}
	r := rewriter{s: s, ctx: ctx, l: l, files: files, w: w, p: newPartitionWriter(w, s.table, path+".spill"+tempSuffix, s.spillLimit)}
	r.merge.reader = reader{op: "rewrite", cache: s.cache}
	r.merge.budget = s.o.CursorBytes
	if err := r.run(g.Plans); err != nil {
		w.abort()
		return s.noteDamage(err)
	}
	if meta, err = w.finish(); err != nil {
		return err
	}
	return s.enter(meta, func() (from, to int, err error) {
		// Others may have changed the list. What holds the same windows and nothing else holds the same messages.
		now := s.snapshot()
		from = slices.IndexFunc(now, func(f *file) bool { return f.meta.FirstWindow == g.FirstWindow })
		to = 1 + slices.IndexFunc(now, func(f *file) bool { return f.meta.LastWindow == g.LastWindow })
		if from < 0 || to <= from || superseded(now[from:to], g) || now[from].meta.FirstSeq != meta.FirstSeq || now[to-1].meta.LastSeq != meta.LastSeq {
			return 0, 0, errReplaced
		}
		return from, to, nil
	})
}

// rewriter writes one generation.
type rewriter struct {
	s     *Store
	ctx   context.Context
	l     Limiter
	files []*file // held while run runs
	w     *fileWriter
	p     *partitionWriter
	merge merge
	spent int // bytes read since the last look at the limiter
}

func (r *rewriter) run(plans []PartitionPlan) error {
	defer r.p.close()
	held, err := r.hold()
	defer func() {
		for _, f := range held {
			r.s.release(f)
		}
	}()
	if err != nil {
		return err
	}
	byNode := make(map[topic.ID]Splitter, len(plans))
	for _, p := range plans {
		byNode[p.Partition] = p.Plan
	}
	for _, node := range r.nodes() {
		if err := r.partition(node, byNode[node]); err != nil {
			return err
		}
	}
	foot := &r.w.footer
	foot.firstTime, foot.lastTime = r.files[0].foot.firstTime, r.files[len(r.files)-1].foot.lastTime
	for _, f := range r.files {
		foot.samples = append(foot.samples, f.foot.samples...)
	}
	return nil
}

// hold takes references on the files.
func (r *rewriter) hold() (held []*file, err error) {
	for _, f := range r.files {
		if int(f.meta.MaxTopic) >= r.s.table.Nodes() {
			return held, fmt.Errorf("%s: topic %d: %w", f.name, f.meta.MaxTopic, ErrTableBehind)
		}
		g, err := r.s.acquire(f)
		if err != nil {
			return held, err
		}
		if g == nil {
			return held, fmt.Errorf("%s: %w", f.name, errReplaced)
		}
		held = append(held, g)
	}
	return held, nil
}

// nodes lists the partitions of all files, in order.
func (r *rewriter) nodes() []topic.ID {
	var list []topic.ID
	for _, f := range r.files {
		for i := range f.foot.partitions {
			list = append(list, f.foot.partitions[i].node)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// partition rewrites one partition: its records of file after file, in seq order.
func (r *rewriter) partition(node topic.ID, plan Splitter) error {
	if err := r.p.begin(node, plan); err != nil {
		return err
	}
	for _, f := range r.files {
		part := f.foot.find(node)
		if part == nil {
			continue
		}
		for i := range part.sections {
			r.merge.sources = append(r.merge.sources, source{sec: &part.sections[i]})
		}
		r.merge.begin(f, nil, 0)
		err := r.drain()
		r.merge.reset()
		if err != nil {
			return err
		}
	}
	return r.p.finish()
}

// drain hands all records of the merge to the partition's writer.
func (r *rewriter) drain() error {
	for {
		records, bound, err := r.merge.head()
		if err != nil || len(records) == 0 {
			return err
		}
		n, last := 0, uint64(0)
		for n < len(records) {
			rec := records[n:]
			if last = seqOf(rec); last > bound {
				break
			}
			size := sizeOf(rec)
			if err := r.p.add(rec[:size]); err != nil {
				return err
			}
			n += size
		}
		r.merge.consume(n, min(last, bound))
		if err := r.pause(n); err != nil {
			return err
		}
	}
}

// pause lets the limiter and the context speak now and then.
func (r *rewriter) pause(n int) error {
	r.spent += n
	if r.spent < limitEvery {
		return nil
	}
	n, r.spent = r.spent, 0
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if r.l == nil {
		return nil
	}
	return r.l.Wait(r.ctx, n)
}
