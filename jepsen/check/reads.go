package check

import (
	"time"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/jepsen/history"
)

// reads is the second pass over point reads and verifications.
type reads struct {
	l      *ledger
	out    *findings
	head   history.Header
	linear topic.Filters // topics that porcupine judges
	// digests holds, by seq and part, what was answered first.
	digests map[uint64]map[string]digest
}

type digest struct {
	node, value string
	line        int
}

func newReads(l *ledger, h history.Header) *reads {
	rs := &reads{l: l, out: l.out, head: h, digests: map[uint64]map[string]digest{}}
	if len(h.Linearizable) > 0 {
		var err error
		if rs.linear, err = topic.ParseFilters(h.Linearizable); err != nil {
			l.out.wrong("header: linearizable: %v", err)
		}
	}
	return rs
}

func (rs *reads) observe(line int, e history.Event) {
	switch e := e.(type) {
	case *history.Read:
		if e.Outcome == history.OK {
			rs.read(line, e)
		}
	case *history.Verify:
		rs.verify(line, e)
	}
}

func (rs *reads) read(line int, r *history.Read) {
	rs.out.looked(Stale, 1)
	switch r.Op {
	case history.ReadLast:
		rs.last(line, r)
	case history.ReadAt:
		if len(r.Found) != 1 || r.Found[0].Seq != r.Seq {
			rs.out.found(Stale, []int{line}, "the read of seq %d answered with something else", r.Seq)
		}
	case history.ReadEach:
		rs.each(line, r)
	}
}

// last judges a read of a topic's last message.
func (rs *reads) last(line int, r *history.Read) {
	got := uint64(0)
	if len(r.Found) > 0 {
		got = r.Found[0].Seq
	}
	if len(r.Found) > 1 || len(r.Found) == 1 && r.Found[0].Topic != r.Topic {
		rs.out.found(Stale, []int{line}, "the read of the last of %q answered with something else", r.Topic)
		return
	}
	t, ok := rs.l.topicIDs[r.Topic]
	if !ok {
		return
	}
	if r.AsOf != 0 {
		if want := rs.l.lastOf(t, r.AsOf); got != want && (want > got || got > r.AsOf) {
			rs.stale(line, want, "as of seq %d the last of %q is %d, but the read found %d", r.AsOf, r.Topic, want, got)
		}
		return
	}
	if want := rs.l.lastOf(t, r.MinSeq); got < want {
		rs.stale(line, want, "the read asked for a node that has seq %d, by which the last of %q was %d, but found %d", r.MinSeq, r.Topic, want, got)
		return
	}
	if r.Lin && !rs.linear.Match(r.Topic) {
		if want := rs.ackedOf(t, r.Invoke); got < want {
			rs.stale(line, want, "the linearizable read of %q began at %s, after seq %d of it was acked, but found %d", r.Topic, r.Invoke, want, got)
		}
	}
}

// stale reports a read that should have found the message at want.
func (rs *reads) stale(line int, want uint64, format string, args ...any) {
	lines := []int{line}
	if p := rs.l.places.get(want); p != nil && want != 0 {
		lines = append(lines, p.ackLine, p.line)
	}
	rs.out.found(Stale, lines, format, args...)
}

// ackedOf is the highest seq of a topic that was acked before a time.
func (rs *reads) ackedOf(t uint32, by time.Duration) uint64 {
	list := rs.l.seqsOf(t)
	for i := len(list) - 1; i >= 0; i-- {
		p := rs.l.places.get(list[i])
		if m := rs.l.messages.get(p.ackID); p.ackLine != 0 && m.ret < by {
			return list[i]
		}
	}
	return 0
}

// each judges a read of every topic's last message.
func (rs *reads) each(line int, r *history.Read) {
	filters, err := topic.ParseFilters(r.Filters)
	if err != nil {
		rs.out.wrong("line %d: %v", line, err)
		return
	}
	if r.Snapshot < r.MinSeq || r.AsOf != 0 && r.Snapshot != r.AsOf {
		rs.out.found(Stale, []int{line}, "the read was answered as of seq %d", r.Snapshot)
	}
	found := map[string]uint64{}
	sum, accounts := int64(0), 0
	for _, f := range r.Found {
		if _, twice := found[f.Topic]; twice || !filters.Match(f.Topic) || f.Seq > r.Snapshot {
			rs.out.found(Stale, []int{line}, "the read of each as of seq %d answered with seq %d of %q", r.Snapshot, f.Seq, f.Topic)
		}
		found[f.Topic] = f.Seq
		if rs.isAccount(f.Topic) {
			sum += f.Value
			accounts++
		}
	}
	for t, name := range rs.l.topics {
		if !filters.Match(name) {
			continue
		}
		if want := rs.l.lastOf(uint32(t), r.Snapshot); found[name] < want {
			rs.stale(line, want, "as of seq %d the last of %q is %d, but the read found %d", r.Snapshot, name, want, found[name])
			break
		}
	}
	// As of a seq that the caller chose a transfer may be halfway.
	if b := rs.head.Bank; b != nil && accounts == len(b.Accounts) && r.AsOf == 0 {
		rs.out.looked(Money, 1)
		if sum != b.Total {
			rs.out.found(Money, []int{line}, "as of seq %d the %d accounts hold %d together, not %d", r.Snapshot, accounts, sum, b.Total)
		}
	}
}

func (rs *reads) isAccount(name string) bool {
	if rs.head.Bank == nil {
		return false
	}
	for _, a := range rs.head.Bank.Accounts {
		if a == name {
			return true
		}
	}
	return false
}

// verify compares replicas, also with what was answered for the same seq before.
func (rs *reads) verify(line int, v *history.Verify) {
	var first *history.NodeDigests
	for i := range v.Nodes {
		n := &v.Nodes[i]
		rs.out.looked(Digests, uint64(len(n.Digests)))
		if n.Error != "" {
			if v.Settled {
				rs.out.found(Digests, []int{line}, "after all faults had ended node %s could not be compared: %s", n.Node, n.Error)
			}
			continue
		}
		if first == nil {
			first = n
		}
		if v.Settled && (n.Seq != first.Seq || len(n.Digests) != len(first.Digests)) {
			rs.out.found(Digests, []int{line}, "after all faults had ended node %s has %d parts at seq %d and node %s has %d at %d",
				first.Node, len(first.Digests), first.Seq, n.Node, len(n.Digests), n.Seq)
		}
		rs.compare(line, n)
	}
}

func (rs *reads) compare(line int, n *history.NodeDigests) {
	parts := rs.digests[n.Seq]
	if parts == nil {
		parts = map[string]digest{}
		rs.digests[n.Seq] = parts
	}
	for part, value := range n.Digests {
		before, ok := parts[part]
		if !ok {
			parts[part] = digest{n.Node, value, line}
			continue
		}
		if before.value != value {
			rs.out.found(Digests, []int{before.line, line}, "at seq %d %s is %s on node %s and %s on node %s", n.Seq, part, before.value, before.node, value, n.Node)
		}
	}
}
