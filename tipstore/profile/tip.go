package profile

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/tipstore"
	"github.com/cantus-bus/cantus/tipstore/heapbench"
)

const (
	runMessages = 64 // of an append, if they fit a chunk
	turns       = 3  // how often the ring turns over before it is read
	ringChunks  = 32 // that the ring shall have at least, as long as chunks are not smaller than leastChunk
	leastChunk  = 64 << 10
	beginTime   = 1 << 60 // unix nanoseconds of the first message
)

// shape is how a ring is laid out so that it is full to the last run when it is full.
//
// Invariant: a run fits a chunk; the ring holds exactly messages of them.
type shape struct {
	chunkBytes int
	chunks     int
	run        int // messages of an append
	messages   int // in the full ring; not fewer than the config's
}

func (c *Config) shape() shape {
	size := record.PaddedSize(nil, c.Size)
	chunk := max(c.Messages*size/ringChunks, leastChunk, size)
	chunk = min(1<<bits.Len(uint(chunk-1)), max(tipstore.DefaultChunkBytes, 1<<bits.Len(uint(size-1))))
	s := shape{chunkBytes: chunk, run: min(runMessages, chunk/size, c.Messages)}
	perChunk := chunk / (s.run * size) * s.run
	s.chunks = max(tipstore.MinChunks, (c.Messages+perChunk-1)/perChunk)
	s.messages = s.chunks * perChunk
	return s
}

// tips are two stores with the same messages, one with an index and one without.
type tips struct {
	config     *Config
	partitions int
	shape      shape
	table      *topic.Table
	ids        []topic.ID // by partition
	class      []int      // by partition: index into classes of the first that has it
	classes    []int
	indexed    *tipstore.Store
	plain      *tipstore.Store
	pool       poolFigures
}

// poolFigures tell of the index's pool.
type poolFigures struct {
	bytesPerMessage float64 // all memory of the index by the messages in the full ring
	usedPerMessage  float64 // of it, blocks in use
	blocksFull      []int   // blocks in use whenever the ring was full
}

// newTips makes the stores and their topics; close them. A reader of class i wants the partitions of classes up to i.
func newTips(c *Config, partitions int) (t *tips, err error) {
	t = &tips{config: c, partitions: partitions, shape: c.shape(), table: topic.NewTable(partitions), classes: c.classes(partitions)}
	t.ids, t.class = make([]topic.ID, partitions), make([]int, partitions)
	class := 0
	for rank, p := range rand.New(rand.NewPCG(2, 2)).Perm(partitions) {
		if rank == t.classes[class] {
			class++
		}
		t.class[p] = class
	}
	for p := range t.ids {
		name := fmt.Sprintf("class-%d/partition-%d/topic", t.class[p], p)
		if t.ids[p], _, err = t.table.Intern([]byte(name)); err != nil {
			return nil, fmt.Errorf("profile: name a topic: %w", err)
		}
	}
	o := tipstore.Options{SizeBytes: int64(t.shape.chunks) * int64(t.shape.chunkBytes), ChunkBytes: t.shape.chunkBytes}
	if t.indexed, err = tipstore.Open(o, t.table); err != nil {
		return nil, err
	}
	o.IndexOff = true
	if t.plain, err = tipstore.Open(o, t.table); err != nil {
		return nil, errors.Join(err, t.indexed.Close())
	}
	return t, nil
}

func (t *tips) close() error { return errors.Join(t.indexed.Close(), t.plain.Close()) }

// fill turns the ring of the indexed store over and puts the messages that it holds then into the other one too.
func (t *tips) fill(ctx context.Context) error {
	full := t.shape.messages
	s := newStream(t.config.Interleave, t.partitions)
	for range 1 + turns {
		if err := t.append(ctx, t.indexed, s, full); err != nil {
			return err
		}
		stats := t.indexed.Stats()
		t.pool.blocksFull = append(t.pool.blocksFull, stats.Blocks-stats.FreeBlocks)
		t.pool.bytesPerMessage = float64(stats.IndexBytes) / float64(full)
		t.pool.usedPerMessage = float64((stats.Blocks-stats.FreeBlocks)*blockBytes) / float64(full)
	}
	again := newStream(t.config.Interleave, t.partitions)
	again.skip(turns * full)
	return t.append(ctx, t.plain, again, full)
}

// blockBytes is a full block of the index: a header of 16 bytes and its entries.
const blockBytes = 16 + 4*tipstore.BlockEntries

// append puts n messages into a store. Message i of the stream gets seq i+1.
func (t *tips) append(ctx context.Context, store *tipstore.Store, s *stream, n int) error {
	payload := make([]byte, t.config.Size)
	var buf []byte
	var err error
	for left := n; left > 0; {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		first, count := uint64(s.at)+1, min(left, t.shape.run)
		buf = buf[:0]
		for range count {
			if buf, err = record.AppendRecord(buf, uint32(t.ids[s.next()]), nil, payload); err != nil {
				return err
			}
		}
		store.Append(buf, count, nil, first, beginTime+int64(first))
		store.Publish()
		left -= count
	}
	return nil
}

// from is the first seq that readers have missed; they read on to the end of the ring.
func (t *tips) from() uint64 {
	return uint64((turns+1)*t.shape.messages - t.config.Messages + 1)
}

// selection is what readers want of the tips.
type selection struct {
	filters  topic.Filters
	messages int              // that a reader must get
	lists    *heapbench.Lists // the places of these messages in the stream, a list for each partition
}

// choose makes the selection of a number of partitions that is one of classes.
func (t *tips) choose(partitions int) (selection, error) {
	var texts []string
	last := 0
	for i, n := range t.classes {
		if n > partitions {
			break
		}
		texts, last = append(texts, fmt.Sprintf("class-%d/**", i)), i
	}
	filters, err := topic.ParseFilters(texts)
	if err != nil {
		return selection{}, err
	}
	places, lists := make([]int, t.partitions), make([][]uint64, 0, partitions)
	for p, class := range t.class {
		if class <= last {
			places[p] = len(lists)
			lists = append(lists, nil)
		}
	}
	sel := selection{filters: filters}
	s := newStream(t.config.Interleave, t.partitions)
	s.skip(int(t.from()) - 1)
	for key := range uint64(t.config.Messages) {
		if p := s.next(); t.class[p] <= last {
			lists[places[p]] = append(lists[places[p]], key)
			sel.messages++
		}
	}
	sel.lists = heapbench.NewLists(lists)
	return sel, nil
}
