package subtree

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// Seal writes a window. next returns runs of whole records with topic id, seq and time stamped, all from FirstSeq to
// LastSeq in order; a run is used until the next call, and an error of next, io.EOF too, ends the sealing. A window that is
// there already is left alone, without a call of next, unless its file is damaged: then it is written again. ErrOutOfOrder
// if the window does not follow on the last. After an error history is as before and Seal may be called again.
//
// It holds the window's records in memory, and 12 bytes more for each.
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
	g := gather{w: w, table: s.table, chains: make(map[topic.PartitionID]*chain)}
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

// gatherChunk is the size of the pieces in which a window's records are kept.
const gatherChunk = 1 << 20

// gather collects the records of a window and chains those of each partition.
//
// Invariant: record i of the window begins at where[i]: chunk in the upper half, offset in the lower; after[i] is the next
// record of its partition, 0 if there is none.
type gather struct {
	w      Window
	table  *topic.Table
	chunks [][]byte
	where  []uint64
	after  []uint32
	chains map[topic.PartitionID]*chain
	recent *chain
	foot   footer // times and samples
}

type chain struct {
	part        topic.PartitionID
	node        topic.ID
	first, last uint32
}

func (g *gather) collect(next func() ([]byte, error)) error {
	n := g.w.LastSeq - g.w.FirstSeq + 1
	if n > 1<<31 {
		return fmt.Errorf("%d messages are too many for a window", n)
	}
	for uint64(len(g.where)) < n {
		run, err := next()
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("the messages end before seq %d: %w", g.w.FirstSeq+uint64(len(g.where)), io.ErrUnexpectedEOF)
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
	i, seq, id := uint32(len(g.where)), seqOf(rec), topicOf(rec)
	if want := g.w.FirstSeq + uint64(i); seq != want || seq > g.w.LastSeq {
		return fmt.Errorf("a message with seq %d where %d is due (last of the window: %d)", seq, want, g.w.LastSeq)
	}
	if int(id) >= g.table.Nodes() || g.table.Partition(id) == topic.NoPartition {
		return fmt.Errorf("message %d has the unknown topic %d", seq, id)
	}
	g.store(rec)
	g.after = append(g.after, 0)
	part := g.table.Partition(id)
	if g.recent == nil || g.recent.part != part {
		c := g.chains[part]
		if c == nil {
			c = &chain{part: part, node: g.table.PartitionNode(part), first: i, last: i}
			g.chains[part] = c
		}
		g.recent = c
	}
	if g.recent.last != i {
		g.after[g.recent.last] = i
	}
	g.recent.last = i
	g.foot.note(seq, timeOf(rec), seq == g.w.FirstSeq)
	return nil
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

// store copies a record into the chunks.
func (g *gather) store(rec []byte) {
	n := len(g.chunks) - 1
	if n < 0 || len(g.chunks[n])+len(rec) > cap(g.chunks[n]) {
		g.chunks = append(g.chunks, make([]byte, 0, max(gatherChunk, len(rec))))
		n++
	}
	g.where = append(g.where, uint64(n)<<32|uint64(len(g.chunks[n])))
	g.chunks[n] = append(g.chunks[n], rec...)
}

func (g *gather) record(i uint32) []byte {
	at := g.where[i]
	rec := g.chunks[at>>32][uint32(at):]
	return rec[:sizeOf(rec)]
}

// write writes all partitions.
func (g *gather) write(w *fileWriter, p *partitionWriter) error {
	defer p.close()
	list := make([]*chain, 0, len(g.chains))
	for _, c := range g.chains {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *chain) int { return cmp.Compare(a.node, b.node) })
	for _, c := range list {
		if err := g.writeChain(p, c); err != nil {
			return err
		}
	}
	w.footer.firstTime, w.footer.lastTime, w.footer.samples = g.foot.firstTime, g.foot.lastTime, g.foot.samples
	return nil
}

func (g *gather) writeChain(p *partitionWriter, c *chain) error {
	if err := p.begin(c.node, nil); err != nil {
		return err
	}
	for i := c.first; ; i = g.after[i] {
		if err := p.add(g.record(i)); err != nil {
			return err
		}
		if i == c.last {
			return p.finish()
		}
	}
}
