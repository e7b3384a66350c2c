package profile

import (
	"context"
	"errors"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/tipstore/heapbench"
)

// NoHeap is a row's heap when nothing was merged.
const NoHeap = "none"

// Row is the cost of one kind of reading.
type Row struct {
	Heap         string  `json:"heap"` // of heapbench; the shipped one where the tip itself merged
	Partitions   int     `json:"partitions"`
	Readers      int     `json:"readers"`
	Selectivity  float64 `json:"selectivity"`
	NsPerMessage float64 `json:"ns_per_message"` // processor time by messages delivered
	CPUSeconds   float64 `json:"cpu_s"`          // processor time of all readers for one pass each
	MBPerS       float64 `json:"mb_per_s"`       // bytes of records delivered, in 10^6, by the clock

	Method      string  `json:"method"`
	Messages    int64   `json:"messages"` // delivered to all readers in one pass
	WallSeconds float64 `json:"wall_s"`
	Size        int     `json:"size"`
	Interleave  string  `json:"interleave"`

	// Of the tip's index, when its ring was full and had turned over.
	IndexBytesPerMessage     float64 `json:"index_bytes_per_message"`      // all its memory
	IndexUsedBytesPerMessage float64 `json:"index_used_bytes_per_message"` // of it, blocks that hold something
	// BlocksFull are blocks in use whenever the ring was full: for the first time, turned over once, twice and so on. Lists
	// begin with small blocks, so the first is less than the others.
	BlocksFull []int `json:"blocks_full"`
}

// kindOf is one way of reading one selection, which becomes one row.
type kindOf struct {
	method, heap string
	reader       newReader
	force        bool // the store merges whatever it costs
	costs        []cost
}

// Run measures. progress, which may be nil, is called after each of the config's steps. Cancelling ctx ends it with the
// context's error.
func Run(ctx context.Context, c Config, progress func()) ([]Row, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func() {}
	}
	r := &runner{Config: c, progress: progress}
	for _, partitions := range c.Partitions {
		if err := r.overPartitions(ctx, partitions); err != nil {
			return nil, err
		}
	}
	return r.rows, nil
}

type runner struct {
	Config
	progress func()
	rows     []Row
}

// Steps is how often Run calls progress.
func (c *Config) Steps() int {
	kinds := 3 + len(c.Heaps)
	return len(c.Partitions) * (1 + len(c.Selectivities)*len(c.Readers)*kinds*c.Repeat)
}

// overPartitions builds the tips once and measures all readings of them.
func (r *runner) overPartitions(ctx context.Context, partitions int) (err error) {
	t, err := newTips(&r.Config, partitions)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.fill(ctx); err != nil {
		return err
	}
	r.progress()
	for _, selectivity := range r.Selectivities {
		sel, err := t.choose(wanted(selectivity, partitions))
		if err != nil {
			return err
		}
		for _, readers := range r.Readers {
			if err := r.overKinds(ctx, t, sel, selectivity, readers); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *runner) kinds(t *tips, sel selection) []*kindOf {
	list := []*kindOf{
		{method: Index, heap: heapbench.Shipped, reader: t.tipReader(t.indexed, sel), force: true},
		{method: Linear, heap: NoHeap, reader: t.tipReader(t.plain, sel)},
		{method: Chosen, heap: heapbench.Shipped, reader: t.tipReader(t.indexed, sel)},
	}
	for _, heap := range r.Heaps {
		list = append(list, &kindOf{method: Merge, heap: heap, reader: listReader(heap, sel)})
	}
	return list
}

// overKinds measures all kinds in turn, Repeat times, so that a change of the machine's mood meets all alike.
func (r *runner) overKinds(ctx context.Context, t *tips, sel selection, selectivity float64, readers int) error {
	kinds := r.kinds(t, sel)
	for range r.Repeat {
		for _, k := range kinds {
			t.indexed.MergeAlways(k.force)
			cost, err := measure(ctx, sel, k.reader, readers, r.MinTime)
			if err != nil {
				return err
			}
			k.costs = append(k.costs, cost)
			r.progress()
		}
	}
	for _, k := range kinds {
		r.rows = append(r.rows, r.row(t, k, sel.messages*readers, selectivity, readers))
	}
	return nil
}

func (r *runner) row(t *tips, k *kindOf, messages int, selectivity float64, readers int) Row {
	c := median(k.costs)
	row := Row{
		Heap: k.heap, Partitions: t.partitions, Readers: readers, Selectivity: selectivity,
		CPUSeconds: c.cpu.Seconds(), WallSeconds: c.wall.Seconds(),
		Method: k.method, Messages: int64(messages), Size: r.Size, Interleave: r.Interleave.String(),
		IndexBytesPerMessage: t.pool.bytesPerMessage, IndexUsedBytesPerMessage: t.pool.usedPerMessage,
		BlocksFull: t.pool.blocksFull,
	}
	if messages > 0 {
		row.NsPerMessage = float64(c.cpu) / float64(messages)
	}
	if c.wall > 0 {
		row.MBPerS = float64(messages*record.PaddedSize(nil, r.Size)) / 1e6 / c.wall.Seconds()
	}
	return row
}
