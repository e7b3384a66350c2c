package fsm

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// Generation is a run of whole windows that is to lie on disk split into subtree stores.
type Generation struct {
	Number                  uint64 // from 1; each plan that is applied makes the next
	FirstWindow, LastWindow uint64
	FirstSeq, LastSeq       uint64
	// Plans of those partitions that have more than one store, by partition node, ascending. Shared: not to be changed.
	Plans []PartitionPlan
}

// PartitionPlan says how a partition's messages of a generation are split. The bytes are those of package subtree/plan.
type PartitionPlan struct {
	Partition topic.ID // node of the partition
	Plan      []byte
}

// Body of a plan entry, little-endian:
//
//	 0 u64 number of the generation that it makes, the next one
//	 8 u64 first window   16 u64 last window
//	24 u32 partitions     28 u32 0
//	32 {u32 partition node, u32 bytes of the plan, the plan}... by node, ascending; partitions not named have one store
//
// MaxPlanBody bounds it, in bytes: the leader splits fewer partitions when a plan is larger.
const (
	planHeaderSize = 32
	MaxPlanBody    = 8 << 20
)

// PlanBody is the body of a record.KindPlan entry; FirstSeq and LastSeq are not part of it.
func PlanBody(g Generation) []byte {
	le := binary.LittleEndian
	b := le.AppendUint64(nil, g.Number)
	b = le.AppendUint64(b, g.FirstWindow)
	b = le.AppendUint64(b, g.LastWindow)
	b = le.AppendUint64(b, uint64(len(g.Plans)))
	for _, p := range g.Plans {
		b = le.AppendUint32(b, uint32(p.Partition))
		b = le.AppendUint32(b, uint32(len(p.Plan)))
		b = append(b, p.Plan...)
	}
	return b
}

// decodePlan parses a plan entry strictly. The plans are copies.
func decodePlan(body []byte) (g Generation, err error) {
	if len(body) < planHeaderSize || len(body) > MaxPlanBody {
		return g, fmt.Errorf("plan of %d bytes, want %d to %d: %w", len(body), planHeaderSize, MaxPlanBody, record.ErrCorrupt)
	}
	le := binary.LittleEndian
	g.Number, g.FirstWindow, g.LastWindow = le.Uint64(body), le.Uint64(body[8:]), le.Uint64(body[16:])
	count, rest := le.Uint64(body[24:]), body[planHeaderSize:]
	if count > uint64(len(rest))/8 {
		return g, fmt.Errorf("plan of %d partitions in %d bytes: %w", count, len(body), record.ErrCorrupt)
	}
	g.Plans = make([]PartitionPlan, 0, count)
	for range count {
		if len(rest) < 8 || uint64(len(rest)-8) < uint64(le.Uint32(rest[4:])) {
			return g, fmt.Errorf("plan ends within partition %d of %d: %w", len(g.Plans)+1, count, record.ErrCorrupt)
		}
		id, end := topic.ID(le.Uint32(rest)), 8+le.Uint32(rest[4:])
		g.Plans = append(g.Plans, PartitionPlan{Partition: id, Plan: slices.Clone(rest[8:end])})
		rest = rest[end:]
	}
	if len(rest) > 0 {
		return g, fmt.Errorf("plan is followed by %d bytes: %w", len(rest), record.ErrCorrupt)
	}
	return g, nil
}

// generations are the plans in force. All of it but visible is state.
//
// Invariants: list is adjacent in windows, from the oldest retained window on; made is the highest number ever used. What is in list is
// decided by sum and by which windows are retained.
type generations struct {
	list []Generation  // a new slice at each change: readers keep the old
	made uint64        // of an applied plan, though its generation may be dropped
	sum  xxhash.Digest // over every plan that was applied

	visible atomic.Pointer[[]Generation]
	next    atomic.Uint64 // made+1, for other goroutines
	onPlan  func(Generation)
	check   func(partition string, plan []byte) error
}

func (s *generations) init(onPlan func(Generation), check func(string, []byte) error) {
	s.sum.Reset()
	s.show()
	s.onPlan, s.check = onPlan, check
}

// Generations are the plans in force, oldest windows first. The slice is shared and must not be changed. Any goroutine.
func (m *Machine) Generations() []Generation { return *m.generations.visible.Load() }

// NextGeneration is the number that the next plan must have. Any goroutine.
func (m *Machine) NextGeneration() uint64 { return m.generations.next.Load() }

// applyPlan puts a plan in force, or says why not: then nothing changes.
func (m *Machine) applyPlan(index uint64, body []byte, dst []Result) ([]Result, error) {
	g, err := decodePlan(body)
	if err != nil {
		return nil, err
	}
	m.begin(index)
	s := &m.generations
	r := Result{Detail: s.made + 1}
	from, to, ok := s.covered(g.FirstWindow, g.LastWindow, m.windows.oldest(), m.windows.newest())
	switch {
	case g.Number != s.made+1:
		r.Code = OutOfOrder
	case !ok || !m.plansValid(g.Plans):
		r.Code = Invalid
	default:
		first, _ := numbered(m.windows.sealed, g.FirstWindow)
		last, _ := numbered(m.windows.sealed, g.LastWindow)
		g.FirstSeq, g.LastSeq = first.FirstSeq, last.LastSeq
		s.replace(from, to, g)
		_, _ = s.sum.Write(body)
	}
	return append(dst, r), nil
}

// covered finds the generations [from, to) that a plan for the windows first to last replaces. It is not ok unless these are
// covered whole, no window is left out before it, and all windows are sealed and retained: these are oldest to newest.
func (s *generations) covered(first, last, oldest, newest uint64) (from, to int, ok bool) {
	if first < oldest || first > last || last > newest {
		return 0, 0, false
	}
	from = slices.IndexFunc(s.list, func(g Generation) bool { return g.FirstWindow == first })
	if from < 0 {
		from = len(s.list)
		next := oldest
		if from > 0 {
			next = s.list[from-1].LastWindow + 1
		}
		return from, from, first == next
	}
	for to = from; to < len(s.list) && s.list[to].LastWindow <= last; to++ {
	}
	return from, to, to == len(s.list) || to > from && s.list[to-1].LastWindow == last
}

func (s *generations) replace(from, to int, g Generation) {
	list := slices.Concat(s.list[:from], []Generation{g}, s.list[to:])
	s.list, s.made = list, g.Number
	s.show()
	if s.onPlan != nil {
		s.onPlan(g)
	}
}

// show makes list and made visible to other goroutines.
func (s *generations) show() {
	list := s.list
	s.visible.Store(&list)
	s.next.Store(s.made + 1)
}

// plansValid: each is for a partition of this table, no partition has two, and each can be decoded.
func (m *Machine) plansValid(plans []PartitionPlan) bool {
	for i, p := range plans {
		if i > 0 && plans[i-1].Partition >= p.Partition || int(p.Partition) >= m.table.Nodes() {
			return false
		}
		at := m.table.Partition(p.Partition)
		if at == topic.NoPartition || m.table.PartitionNode(at) != p.Partition {
			return false
		}
		if len(p.Plan) == 0 || m.generations.check != nil && m.generations.check(m.table.Name(p.Partition), p.Plan) != nil {
			return false
		}
	}
	return true
}
