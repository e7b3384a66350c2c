package demo

// Faults counts what must never happen.
type Faults struct {
	Lost       uint64 `json:"lost"`         // acknowledged, wanted, and not delivered
	Duplicated uint64 `json:"duplicated"`   // delivered more than once
	OutOfOrder uint64 `json:"out_of_order"` // delivered after a later one
	Foreign    uint64 `json:"foreign"`      // not wanted by the filters, never published, or changed on the way
}

func (f *Faults) add(o Faults) {
	f.Lost += o.Lost
	f.Duplicated += o.Duplicated
	f.OutOfOrder += o.OutOfOrder
	f.Foreign += o.Foreign
}

// Any says whether anything went wrong.
func (f Faults) Any() bool { return f != Faults{} }

// checker holds what one reader gets against the stream. One goroutine.
type checker struct {
	stream  *stream
	wanted  []bool // by row
	seen    []uint64
	highest uint64 // newest id seen
	lastSeq uint64
	count   uint64
	faults  Faults
	scratch []byte
}

func newChecker(s *stream, filters []string) *checker {
	return &checker{stream: s, wanted: s.matching(filters)}
}

// take judges one delivered message.
func (c *checker) take(seq uint64, topic string, payload []byte) {
	c.count++
	id := parseID(payload)
	if id == 0 || !c.wanted[c.stream.row(id)] {
		c.faults.Foreign++
		return
	}
	var ok bool
	if c.scratch, ok = c.stream.genuine(id, topic, payload, c.scratch); !ok {
		c.faults.Foreign++
		return
	}
	switch {
	case c.has(id):
		c.faults.Duplicated++
	case id < c.highest || seq <= c.lastSeq:
		c.faults.OutOfOrder++
	}
	c.mark(id)
	c.highest = max(c.highest, id)
	c.lastSeq = max(c.lastSeq, seq)
}

func (c *checker) has(id uint64) bool {
	word := int(id / 64)
	return word < len(c.seen) && c.seen[word]&(1<<(id%64)) != 0
}

func (c *checker) mark(id uint64) {
	for word := int(id / 64); word >= len(c.seen); {
		c.seen = append(c.seen, 0)
	}
	c.seen[id/64] |= 1 << (id % 64)
}

// finish counts what is missing of the ids 1 to last. failed are those that were never acknowledged: they may be missing.
func (c *checker) finish(last uint64, failed map[uint64]bool) Faults {
	for id := uint64(1); id <= last; id++ {
		if c.wanted[c.stream.row(id)] && !failed[id] && !c.has(id) {
			c.faults.Lost++
		}
	}
	return c.faults
}
