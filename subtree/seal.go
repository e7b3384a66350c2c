package subtree

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// Seal writes a window. next returns runs of whole records with topic id, seq and time stamped, all from FirstSeq to
// LastSeq in order; a run is used until the next call, and an error of next, io.EOF too, ends the sealing. A window that is
// there already is left alone, without a call of next, unless its file is damaged: then it is written again. ErrOutOfOrder
// if the window does not follow on the last. After an error history is as before and Seal may be called again.
//
// It holds the window's records in memory, and about an eighth more.
func (s *Store) Seal(w Window, next func() (run []byte, err error)) error {
	s.sealing.Lock()
	defer s.sealing.Unlock()
	at, err := s.placeOf(w)
	if err == nil && at >= 0 {
		err = s.seal(w, next)
	}
	if err != nil {
		return fmt.Errorf("subtree: seal window %d: %w", w.Number, err)
	}
	return nil
}

// placeOf is where in the list of files the window belongs; -1: it is there.
func (s *Store) placeOf(w Window) (int, error) {
	files, oldest := s.extent()
	first, last := s.Bounds()
	for i, f := range files {
		if w.Number < f.meta.FirstWindow || w.Number > f.meta.LastWindow {
			continue
		}
		if f.meta.Kind == KindWindow && s.isDamaged(f) {
			if w.FirstSeq != f.meta.FirstSeq || w.LastSeq != f.meta.LastSeq {
				return 0, fmt.Errorf("seqs %d to %d, but the damaged file holds %d to %d: %w", w.FirstSeq, w.LastSeq, f.meta.FirstSeq, f.meta.LastSeq, ErrOutOfOrder)
			}
			return i, nil
		}
		return -1, nil
	}
	_, lastWindow := s.Windows()
	switch {
	case w.Number == 0 || w.FirstSeq == 0 || w.LastSeq < w.FirstSeq:
		return 0, fmt.Errorf("an empty range of seqs, %d to %d: %w", w.FirstSeq, w.LastSeq, ErrOutOfOrder)
	case w.Number < oldest.window:
		return -1, nil // sealed once, and no longer kept
	case len(files) == 0 && (w.FirstSeq < oldest.seq || w.Number == oldest.window && w.FirstSeq != oldest.seq && oldest.window > 1):
		return 0, fmt.Errorf("it begins at seq %d, history goes on with window %d at seq %d: %w", w.FirstSeq, oldest.window, oldest.seq, ErrOutOfOrder)
	case len(files) > 0 && (w.Number != lastWindow+1 || w.FirstSeq != last+1):
		return 0, fmt.Errorf("it begins at seq %d, history holds %d to %d and windows up to %d: %w", w.FirstSeq, first, last, lastWindow, ErrOutOfOrder)
	}
	return len(files), nil
}

func (s *Store) isDamaged(f *file) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.damaged[f.name] != nil
}

func (s *Store) seal(w Window, next func() ([]byte, error)) error {
	g := gather{w: w, table: s.table, spare: &s.chunks}
	if err := g.collect(next); err != nil {
		return err
	}
	meta := Meta{
		Kind: KindWindow, Number: w.Number, FirstWindow: w.Number, LastWindow: w.Number, FirstSeq: w.FirstSeq, LastSeq: w.LastSeq,
	}
	path := filepath.Join(s.dir, meta.Name())
	fw, err := createFile(s.fs, path, meta)
	if err != nil {
		return err
	}
	if err := g.write(fw, newPartitionWriter(fw, s.table, path+".spill"+tempSuffix, s.spillLimit)); err != nil {
		fw.abort()
		return err
	}
	if meta, err = fw.finish(); err != nil {
		return err
	}
	return s.enter(meta, func() (from, to int, err error) {
		// An Install may have changed the list meanwhile.
		at, err := s.placeOf(w)
		files := s.snapshot()
		switch {
		case err != nil || at < 0:
			return -1, -1, err
		case at == len(files):
			return at, at, nil
		case files[at].meta != meta:
			return 0, 0, errors.New("the damaged file was made of other messages than these")
		}
		return at, at + 1, nil
	})
}

// Records of a window are kept in pieces of at least minChunk bytes, at most maxChunk, unless one record is larger.
const (
	minChunk = 1 << 10
	maxChunk = 256 << 10
)

// gather collects the records of a window by partition. Each goes right to the end of its partition's: so both the reading
// here and the writing of a partition, later, are in the order of memory.
type gather struct {
	w     Window
	table *topic.Table
	piles []*pile // by partition; nil: none of its records has come
	count uint64  // of records
	foot  footer  // times and samples
	spare *sync.Pool
}

// pile is what came of one partition, in seq order.
type pile struct {
	node   topic.ID
	chunks [][]byte // whole records
	bytes  int
}

func (g *gather) collect(next func() ([]byte, error)) error {
	n := g.w.LastSeq - g.w.FirstSeq + 1
	if n > 1<<31 {
		return fmt.Errorf("%d messages are too many for a window", n)
	}
	for g.count < n {
		run, err := next()
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("the messages end before seq %d: %w", g.w.FirstSeq+g.count, io.ErrUnexpectedEOF)
		}
		if err != nil {
			return err
		}
		if err := g.addRun(run); err != nil {
			return err
		}
	}
	return nil
}

func (g *gather) addRun(run []byte) error {
	for len(run) > 0 {
		_, rest, err := record.Next(run)
		if err != nil {
			return err
		}
		if err := g.add(run[:len(run)-len(rest)]); err != nil {
			return err
		}
		run = rest
	}
	return nil
}

func (g *gather) add(rec []byte) error {
	seq, id := seqOf(rec), topicOf(rec)
	if want := g.w.FirstSeq + g.count; seq != want || seq > g.w.LastSeq {
		return fmt.Errorf("a message with seq %d where %d is due (last of the window: %d)", seq, want, g.w.LastSeq)
	}
	if int(id) >= g.table.Nodes() || g.table.Partition(id) == topic.NoPartition {
		return fmt.Errorf("message %d has the unknown topic %d", seq, id)
	}
	g.pile(g.table.Partition(id)).store(rec, g.spare)
	g.foot.note(seq, timeOf(rec), g.count == 0)
	g.count++
	return nil
}

func (g *gather) pile(part topic.PartitionID) *pile {
	if int(part) >= len(g.piles) {
		g.piles = append(g.piles, make([]*pile, int(part)+1-len(g.piles))...)
	}
	if g.piles[part] == nil {
		g.piles[part] = &pile{node: g.table.PartitionNode(part)}
	}
	return g.piles[part]
}

// note keeps the times of a message; they come in order.
func (f *footer) note(seq uint64, time int64, first bool) {
	if first {
		f.firstTime = time
	}
	f.lastTime = time
	if seq%sampleEvery == 0 {
		f.samples = append(f.samples, sample{seq, time})
	}
}

// store copies a record into the last chunk. A new one is as large as an eighth of what is there: little is wasted.
func (p *pile) store(rec []byte, spare *sync.Pool) {
	n := len(p.chunks) - 1
	if n < 0 || len(p.chunks[n])+len(rec) > cap(p.chunks[n]) {
		p.chunks = append(p.chunks, newChunk(max(len(rec), min(maxChunk, max(minChunk, p.bytes/8))), spare))
		n++
	}
	p.chunks[n] = append(p.chunks[n], rec...)
	p.bytes += len(rec)
}

func newChunk(size int, spare *sync.Pool) []byte {
	if size == maxChunk {
		if b, ok := spare.Get().(*[]byte); ok {
			return (*b)[:0]
		}
	}
	return make([]byte, 0, size)
}

// write writes all partitions, and lets go of their records.
func (g *gather) write(w *fileWriter, p *partitionWriter) error {
	defer p.close()
	list := slices.DeleteFunc(g.piles, func(x *pile) bool { return x == nil })
	slices.SortFunc(list, func(a, b *pile) int { return cmp.Compare(a.node, b.node) })
	for _, x := range list {
		if err := x.write(p, g.spare); err != nil {
			return err
		}
	}
	w.footer.firstTime, w.footer.lastTime, w.footer.samples = g.foot.firstTime, g.foot.lastTime, g.foot.samples
	return nil
}

func (x *pile) write(p *partitionWriter, spare *sync.Pool) error {
	if err := p.begin(x.node, nil); err != nil {
		return err
	}
	for i, chunk := range x.chunks {
		for rest := chunk; len(rest) > 0; {
			size := sizeOf(rest)
			if err := p.add(rest[:size]); err != nil {
				return err
			}
			rest = rest[size:]
		}
		if cap(chunk) == maxChunk {
			spare.Put(&chunk)
		}
		x.chunks[i] = nil
	}
	return p.finish()
}
