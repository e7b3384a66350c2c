package cluster

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/subtree"
	"github.com/cantus-bus/cantus/subtree/plan"
)

const (
	// mergeFan is how many adjacent generations of similar size become one. With it, history of n windows lies in about
	// mergeFan*log(n) files, and each message is rewritten about log(n) times, the logarithms to this base.
	mergeFan = 8
	// maxMergeBytes bounds the generation that a merge makes, in bytes of records: while it is written, both it and what it replaces
	// are on the disk.
	maxMergeBytes = 64 << 30
	// DefaultMinStoreBytes is the volume below which a store is not split further.
	DefaultMinStoreBytes = 256 << 10
)

// windowRange is a range of windows that a plan is to cover; both are 0 if there is none.
type windowRange struct{ first, last uint64 }

// unplanned is the range of windows up to the last archived one that no generation covers, if there are at least least of them.
// windows are those that are retained.
func unplanned(gs []fsm.Generation, windows []fsm.Window, archived, least uint64) (w windowRange, ok bool) {
	if len(windows) == 0 {
		return w, false
	}
	planned := windows[0].Number - 1
	if len(gs) > 0 {
		planned = gs[len(gs)-1].LastWindow
	}
	if archived < planned+max(least, 1) {
		return w, false
	}
	return windowRange{planned + 1, archived}, true
}

// mergeable finds adjacent generations of similar size that should become one, the smallest first. Size is the number of windows,
// and similar are those of the same power of mergeFan, its tier; smaller ones that stand among them come along. What would be dropped too
// coarsely by c's retention is left alone.
func mergeable(gs []fsm.Generation, windows []fsm.Window, c fsm.StreamConfig) (w windowRange, ok bool) {
	for tier := 0; tier <= tierOf(uint64(len(windows))); tier++ {
		for i := 0; i < len(gs); i++ {
			end := i
			for end < len(gs) && tierOf(windowsOf(gs[end])) <= tier {
				end++
			}
			if run := worthMerging(gs[i:end], tier); len(run) > 0 && bytesOf(run, windows) <= maxMergeBytes && !tooCoarse(run, windows, c) {
				return windowRange{run[0].FirstWindow, run[len(run)-1].LastWindow}, true
			}
			i = end
		}
	}
	return w, false
}

func windowsOf(g fsm.Generation) uint64 { return g.LastWindow - g.FirstWindow + 1 }

func tierOf(windows uint64) int { return (bits.Len64(windows) - 1) / (bits.Len(mergeFan) - 1) }

// worthMerging is the longest end of run that is worth it: mergeFan generations of the tier, none of which is more than half of
// all, so that no message is written again only because a little came to it.
func worthMerging(run []fsm.Generation, tier int) []fsm.Generation {
	for ; len(run) >= mergeFan; run = run[1:] {
		count, largest, total := 0, uint64(0), uint64(0)
		for _, g := range run {
			if tierOf(windowsOf(g)) == tier {
				count++
			}
			largest, total = max(largest, windowsOf(g)), total+windowsOf(g)
		}
		if count >= mergeFan && 2*largest <= total {
			return run
		}
	}
	return nil
}

func bytesOf(run []fsm.Generation, windows []fsm.Window) (n uint64) {
	last := run[len(run)-1].LastWindow
	for _, w := range windowsAfter(windows, run[0].FirstWindow-1) {
		if w.Number > last {
			break
		}
		n += w.Bytes
	}
	return n
}

// planner computes plans from what history holds.
type planner struct {
	store *subtree.Store
	table *topic.Table
	opts  plan.Options
}

// plan computes the split of a range of windows. previous is the generation before it, whose stores go on where they can; nil: none.
func (p *planner) plan(w windowRange, previous *fsm.Generation) ([]fsm.PartitionPlan, error) {
	volumes, bytes, err := p.volumes(w)
	if err != nil {
		return nil, fmt.Errorf("cluster: plan windows %d to %d: %w", w.first, w.last, err)
	}
	table, err := plan.TableOf(volumes)
	if err != nil {
		return nil, err
	}
	var old []*plan.Plan
	if previous != nil {
		for _, pp := range previous.Plans {
			pl, err := decodePlan(pp, p.table)
			if err != nil {
				return nil, err
			}
			old = append(old, pl)
		}
	}
	r, err := plan.Compute(table, old, p.opts)
	if err != nil {
		return nil, err
	}
	return p.encode(r.Plans, bytes), nil
}

// volumes are those of every topic, and the bytes of each partition by its node.
func (p *planner) volumes(w windowRange) (list []plan.Volume, bytes map[topic.ID]uint64, err error) {
	bytes = make(map[topic.ID]uint64)
	err = p.store.Volumes(w.first, w.last, func(partition topic.ID, topics []subtree.TopicVolume) error {
		for _, v := range topics {
			bytes[partition] += v.Bytes
			list = append(list, plan.Volume{Topic: p.table.Name(v.Topic), Messages: v.Messages, Bytes: v.Bytes})
		}
		return nil
	})
	return list, bytes, err
}

// encode keeps the plans that split anything, in order of the partitions' nodes. If they do not all fit into an entry, the
// partitions of least volume stay unsplit.
func (p *planner) encode(plans []*plan.Plan, bytes map[topic.ID]uint64) (out []fsm.PartitionPlan) {
	for _, pl := range plans {
		if id, ok := p.table.Lookup(pl.Partition()); ok && pl.Len() > 1 {
			out = append(out, fsm.PartitionPlan{Partition: id, Plan: pl.Append(nil)})
		}
	}
	slices.SortStableFunc(out, func(a, b fsm.PartitionPlan) int { return cmp.Compare(bytes[b.Partition], bytes[a.Partition]) })
	const headers = 64 // of the body, and more than of a plan in it
	room := fsm.MaxPlanBody - headers
	for i := range out {
		if room -= len(out[i].Plan) + headers; room < 0 {
			out = out[:i]
			break
		}
	}
	slices.SortFunc(out, func(a, b fsm.PartitionPlan) int { return cmp.Compare(a.Partition, b.Partition) })
	return out
}
