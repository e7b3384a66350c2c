package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/subtree"
	"github.com/cantus-bus/cantus/subtree/plan"
)

// PartitionStores is how one partition is split in one generation.
type PartitionStores struct {
	Partition   string        `json:"partition"`
	Generation  uint64        `json:"generation"`
	FirstWindow uint64        `json:"first_window"`
	LastWindow  uint64        `json:"last_window"`
	FirstSeq    uint64        `json:"first_seq"`
	LastSeq     uint64        `json:"last_seq"`
	Written     bool          `json:"written"` // the node that answers has rewritten it
	Stores      []StoreVolume `json:"stores"`
}

// StoreVolume is one store of a partition: what goes there, and how much there is.
type StoreVolume struct {
	Store    uint32   `json:"store"`    // keeps its number while most of it stays the same
	Prefixes []string `json:"prefixes"` // the longest that fits a topic decides
	Messages uint64   `json:"messages"`
	Bytes    uint64   `json:"bytes"` // of records
}

// Plans lists how history is split: of one partition, given by any of its topics, in all generations; or with name "" of all
// partitions that have more than one store in the newest generation, by name. Any goroutine.
func (s *Stream) Plans(name string) ([]PartitionStores, error) {
	if s.history == nil {
		return nil, &wire.Error{Code: wire.Code(fsm.Invalid), Message: "this node keeps no history, so nothing is split: ask another node"}
	}
	list, gs := []PartitionStores{}, s.machine.Generations()
	if name == "" {
		if len(gs) == 0 {
			return list, nil
		}
		return s.split(gs[len(gs)-1], func(_ topic.ID, stores int) bool { return stores > 1 })
	}
	if err := topic.Validate(name); err != nil {
		return nil, err
	}
	node, ok := s.table.Lookup(topic.PartitionOf(name))
	for _, g := range gs {
		found, err := s.split(g, func(id topic.ID, _ int) bool { return ok && id == node })
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}
	return list, nil
}

// split adds up the volumes of a generation by store, of those partitions that are wanted.
func (s *Stream) split(g fsm.Generation, wanted func(partition topic.ID, stores int) bool) ([]PartitionStores, error) {
	list := []PartitionStores{}
	err := s.history.store.Volumes(g.FirstWindow, g.LastWindow, func(id topic.ID, topics []subtree.TopicVolume) error {
		pl, err := planOf(g, id, s.table)
		if err != nil || !wanted(id, pl.Len()) {
			return err
		}
		p := PartitionStores{
			Partition: pl.Partition(), Generation: g.Number, FirstWindow: g.FirstWindow, LastWindow: g.LastWindow,
			FirstSeq: g.FirstSeq, LastSeq: g.LastSeq, Written: s.history.written(g), Stores: make([]StoreVolume, pl.Len()),
		}
		for i := range p.Stores {
			p.Stores[i].Store, p.Stores[i].Prefixes = pl.ID(i), pl.RulesOf(i)
		}
		for _, v := range topics {
			store := &p.Stores[pl.StoreOf(s.table.Name(v.Topic))]
			store.Messages += v.Messages
			store.Bytes += v.Bytes
		}
		list = append(list, p)
		return nil
	})
	if errors.Is(err, subtree.ErrOutOfOrder) {
		// Its windows are not here yet, or a merge replaces it just now: what it holds is told with the next look.
		return list, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cluster: list the stores of generation %d: %w", g.Number, err)
	}
	slices.SortFunc(list, func(a, b PartitionStores) int { return strings.Compare(a.Partition, b.Partition) })
	return list, nil
}

// planOf is a partition's plan in a generation: one store where it has none of its own.
func planOf(g fsm.Generation, partition topic.ID, t *topic.Table) (*plan.Plan, error) {
	i, ok := slices.BinarySearchFunc(g.Plans, partition, func(p fsm.PartitionPlan, id topic.ID) int { return int(int64(p.Partition) - int64(id)) })
	if !ok {
		return plan.Default(t.Name(partition)), nil
	}
	return decodePlan(g.Plans[i], t)
}
