package check

import "time"

// checkStream judges the stream as the ledger has it, whoever saw it.
func checkStream(l *ledger) {
	l.refused()
	l.phantoms()
	l.inOrder()
	l.torn()
	l.conditional()
}

func (l *ledger) refused() {
	l.messages.each(0, ^uint64(0), func(id uint64, m *message) bool {
		if m.line == 0 || m.outcome != refused {
			return true
		}
		l.out.looked(Refused, 1)
		if m.seq != 0 {
			l.out.found(Refused, []int{m.line, l.places.get(m.seq).line}, "message %d was refused and stands at seq %d", id, m.seq)
		}
		return true
	})
}

func (l *ledger) phantoms() {
	l.places.each(0, ^uint64(0), func(seq uint64, p *place) bool {
		if !p.seen() {
			return true
		}
		l.out.looked(Phantom, 1)
		m := l.messages.get(p.id)
		switch {
		case p.id == 0:
			l.out.found(Phantom, []int{p.line, p.ackLine}, "seq %d has a payload that nobody published, or that was changed", seq)
		case m == nil || m.line == 0:
			if l.complete { // else its Publish may not have been written
				l.out.found(Phantom, []int{p.line, p.ackLine}, "seq %d is message %d, which nobody published", seq, p.id)
			}
		case m.topic != p.topic:
			l.out.found(Phantom, []int{m.line, p.line}, "seq %d is message %d under %q, which was published to %q", seq, p.id, l.topics[p.topic], l.topics[m.topic])
		}
		return true
	})
}

// turn is a producer's latest message in the stream.
type turn struct {
	epoch  uint32
	number uint64
	seq    uint64
	line   int
}

// inOrder walks the stream once: each producer's messages, and real time.
func (l *ledger) inOrder() {
	turns := make([]turn, len(l.producers)+1)
	var began time.Duration // the latest invocation so far
	var beganSeq uint64
	var beganLine int
	l.places.each(1, ^uint64(0), func(seq uint64, p *place) bool {
		id := p.id
		if !p.seen() {
			id = p.ackID
		}
		if !p.claimed() || id == 0 {
			return true
		}
		m := l.messages.get(id)
		if m == nil || m.line == 0 {
			return true
		}
		l.turn(&turns[m.producer], seq, m)
		if m.outcome == acked && m.acked == seq {
			l.out.looked(RealTime, 1)
			if m.ret < began {
				l.out.found(RealTime, []int{beganLine, m.line}, "seq %d was acked at %s, before the publish of seq %d began at %s", seq, m.ret, beganSeq, began)
			}
		}
		if (m.acked == seq || m.seq == seq) && m.invoke > began {
			began, beganSeq, beganLine = m.invoke, seq, m.line
		}
		return true
	})
}

func (l *ledger) turn(t *turn, seq uint64, m *message) {
	if m.producer == 0 {
		return
	}
	l.out.looked(Producer, 1)
	if m.epoch < t.epoch || m.epoch == t.epoch && m.number < t.number {
		l.out.found(Producer, []int{t.line, m.line}, "a producer's number %d of epoch %d stands at seq %d, before its number %d of epoch %d at seq %d",
			t.number, t.epoch, t.seq, m.number, m.epoch, seq)
		return
	}
	*t = turn{m.epoch, m.number, seq, m.line}
}

// torn looks for atomic batches whose messages are not neighbours. A place that nobody saw tells nothing: another check
// tells if somebody should have.
func (l *ledger) torn() {
	for _, b := range l.batches {
		l.out.looked(Torn, 1)
		first, known := uint64(0), 0
		for i, id := range b.ids {
			if m := l.messages.get(id); m != nil && m.seq != 0 {
				first, known = m.seq-uint64(i), i
				break
			}
		}
		if first == 0 {
			continue
		}
		for i, id := range b.ids {
			p := l.places.get(first + uint64(i))
			m := l.messages.get(id)
			if m.seq == first+uint64(i) || m.seq == 0 && !p.seen() {
				continue
			}
			lines := []int{b.line, l.places.get(first + uint64(known)).line}
			if p.seen() {
				lines = append(lines, p.line)
			}
			if m.seq != 0 {
				lines = append(lines, l.places.get(m.seq).line)
			}
			l.out.found(Torn, lines, "message %d of a batch of %d stands at seq %d, but message %d does not stand at %d (its seq is %d)",
				b.ids[known], len(b.ids), first+uint64(known), id, first+uint64(i), m.seq)
			break
		}
	}
}

// conditional looks for batches in the stream whose preconditions did not hold there.
func (l *ledger) conditional() {
	for _, c := range l.conditions {
		m := l.messages.get(c.id)
		seq := m.seq
		if seq == 0 {
			seq = m.acked
		}
		if seq == 0 {
			continue
		}
		for _, pre := range c.pre {
			t, ok := l.topicIDs[pre.Topic]
			if !ok {
				continue
			}
			l.out.looked(Conditions, 1)
			if last := l.lastOf(t, seq-1); last > pre.LastSeq {
				lines := []int{c.line, l.places.get(last).line, l.places.get(last).ackLine}
				l.out.found(Conditions, lines, "message %d stands at seq %d on condition that the last of %q is %d, but that was %d by then", c.id, seq, pre.Topic, pre.LastSeq, last)
			} else if p := l.places.get(pre.LastSeq); pre.LastSeq != 0 && p.claimed() && last < pre.LastSeq {
				l.out.found(Conditions, []int{c.line, p.line, p.ackLine}, "message %d stands at seq %d on condition that the last of %q is %d, which is none of its messages", c.id, seq, pre.Topic, pre.LastSeq)
			}
		}
	}
}
