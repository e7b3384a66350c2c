package check

import (
	"slices"
	"time"

	"github.com/cantus-bus/cantus/jepsen/history"
)

// message is what is known of a message that somebody published, by its id.
type message struct {
	line     int // of its Publish; 0: nobody published it
	topic    uint32
	producer uint32 // 0: none
	epoch    uint32
	outcome  outcome
	number   uint64
	invoke   time.Duration
	ret      time.Duration // of acked
	acked    uint64        // its seq by its ack; 0: none, or the ack had none
	seq      uint64        // where it was first seen; 0: nowhere
}

type outcome uint8

const (
	unknown outcome = iota
	acked
	refused
)

// place is what is known of a seq.
type place struct {
	id      uint64 // of the message that was first seen there
	ackID   uint64 // of the message whose ack names the seq
	line    int    // where id was seen; 0: nobody saw anything there
	ackLine int
	topic   uint32 // as seen
}

// seen says that a reader or a point read saw a message there.
func (p *place) seen() bool { return p != nil && p.line != 0 }

// claimed says that it was seen or acked.
func (p *place) claimed() bool { return p != nil && (p.line != 0 || p.ackLine != 0) }

// batch is an atomic batch of several messages.
type batch struct {
	line int
	ids  []uint64
}

// condition is a batch with preconditions that was not refused.
type condition struct {
	line int
	id   uint64 // of its first message
	pre  []history.Precondition
}

// ledger is what the first pass learns: who published what, and what stands where.
type ledger struct {
	out *findings
	run timeline

	topicIDs   map[string]uint32
	topics     []string
	producers  map[string]uint32
	messages   paged[message]
	places     paged[place]
	twins      map[uint64][]uint64 // seqs after the first at which an id was seen
	batches    []batch
	conditions []condition
	byTopic    [][]uint64 // each topic's seqs, seen or acked, in order; made by seal
	maxSeq     uint64     // highest seq seen or acked
	complete   bool
	counts     Counts
	faultNames map[string]int
}

func newLedger(out *findings, h history.Header) *ledger {
	return &ledger{out: out, run: newTimeline(h.Bounds), topicIDs: map[string]uint32{}, producers: map[string]uint32{},
		twins: map[uint64][]uint64{}, faultNames: map[string]int{}}
}

// topic numbers a topic.
func (l *ledger) topic(name string) uint32 {
	id, ok := l.topicIDs[name]
	if !ok {
		id = uint32(len(l.topics))
		l.topicIDs[name] = id
		l.topics = append(l.topics, name)
	}
	return id
}

// observe takes the event of a line.
func (l *ledger) observe(line int, e history.Event) {
	l.counts.Events++
	switch e := e.(type) {
	case *history.Publish:
		l.publish(line, e)
	case *history.Delivery:
		l.counts.Deliveries++
		l.see(line, e.Seq, e.ID, e.Topic)
	case *history.Read:
		l.counts.Reads++
		for _, f := range e.Found {
			l.see(line, f.Seq, f.ID, f.Topic)
		}
	case *history.ReaderOpened:
		l.counts.Readers++
	case *history.Fault:
		l.counts.Faults++
		l.faultNames[faultName(e)]++
	case *history.End:
		l.complete = true
	}
	l.run.observe(line, e)
}

func faultName(f *history.Fault) string {
	if f.Aim == "" {
		return f.Name
	}
	return f.Name + " " + f.Aim
}

// publish takes a publish of one message or more.
func (l *ledger) publish(line int, p *history.Publish) {
	if p.Atomic && len(p.Messages) > 1 {
		b := batch{line: line}
		for _, m := range p.Messages {
			b.ids = append(b.ids, m.ID)
		}
		l.batches = append(l.batches, b)
	}
	if len(p.Pre) > 0 && p.Outcome != history.Refused && len(p.Messages) > 0 {
		l.conditions = append(l.conditions, condition{line, p.Messages[0].ID, p.Pre})
	}
	producer := uint32(0)
	if p.Producer != "" {
		var ok bool
		if producer, ok = l.producers[p.Producer]; !ok {
			producer = uint32(len(l.producers) + 1)
			l.producers[p.Producer] = producer
		}
	}
	for i, s := range p.Messages {
		m := l.messages.at(s.ID)
		if m.line != 0 || s.ID == 0 {
			l.out.wrong("line %d: message id %d was used before (line %d), or is 0", line, s.ID, m.line)
			continue
		}
		*m = message{line: line, topic: l.topic(s.Topic), producer: producer, epoch: p.Epoch, number: p.Number + uint64(i),
			invoke: p.Invoke, seq: m.seq}
		switch p.Outcome {
		case history.OK:
			m.outcome, m.ret = acked, p.Return
			l.counts.Published++
			if p.FirstSeq != 0 {
				l.ack(line, s.ID, m, p.FirstSeq+uint64(i))
			}
		case history.Refused:
			m.outcome = refused
			l.counts.Refused++
		default:
			l.counts.Unknown++
		}
	}
}

func (l *ledger) ack(line int, id uint64, m *message, seq uint64) {
	m.acked = seq
	p := l.places.at(seq)
	l.maxSeq = max(l.maxSeq, seq)
	if p.ackLine != 0 {
		l.out.found(Disagree, []int{p.ackLine, line}, "seq %d was acked for message %d and for message %d", seq, p.ackID, id)
		return
	}
	p.ackID, p.ackLine = id, line
}

// see takes the sight of a message at a seq.
func (l *ledger) see(line int, seq, id uint64, topicName string) {
	if seq == 0 {
		l.out.wrong("line %d: a message without a seq", line)
		return
	}
	t := l.topic(topicName)
	p := l.places.at(seq)
	l.maxSeq = max(l.maxSeq, seq)
	l.out.looked(Disagree, 1)
	if p.line == 0 {
		p.id, p.line, p.topic = id, line, t
	} else if p.id != id || p.topic != t {
		l.out.found(Disagree, []int{p.line, line, p.ackLine}, "seq %d is message %d of %q here and message %d of %q there",
			seq, p.id, l.topics[p.topic], id, topicName)
	}
	if id == 0 {
		return // none of the harness's: the stream's checks tell
	}
	switch m := l.messages.at(id); m.seq {
	case seq:
	case 0:
		m.seq = seq
	default:
		l.twin(id, seq)
	}
}

// twin remembers that an id was seen at one more seq. Readers tell whether anybody got it twice.
func (l *ledger) twin(id, seq uint64) {
	for _, s := range l.twins[id] {
		if s == seq {
			return
		}
	}
	l.twins[id] = append(l.twins[id], seq)
}

// seal ends the first pass.
func (l *ledger) seal() {
	l.messages.sort()
	l.places.sort()
	l.run.seal()
	l.counts.Duration = l.run.end
	l.byTopic = make([][]uint64, len(l.topics))
	l.places.each(1, ^uint64(0), func(seq uint64, p *place) bool {
		if p.claimed() {
			l.counts.Seqs++
			t := l.topicAt(p)
			l.byTopic[t] = append(l.byTopic[t], seq)
		}
		return true
	})
}

// topicAt is the topic of a claimed place: as seen, else as acked.
func (l *ledger) topicAt(p *place) uint32 {
	if p.seen() {
		return p.topic
	}
	return l.messages.get(p.ackID).topic
}

// idAt is the message of a claimed place: as seen, else as acked.
func (p *place) idAt() uint64 {
	if p.seen() {
		return p.id
	}
	return p.ackID
}

// seqsOf are a topic's seqs, seen or acked, in order.
func (l *ledger) seqsOf(t uint32) []uint64 {
	if int(t) >= len(l.byTopic) {
		return nil // named, but without a message
	}
	return l.byTopic[t]
}

// lastOf is a topic's last seq at or below a seq that anybody knows of; 0: none.
func (l *ledger) lastOf(t uint32, atOrBelow uint64) uint64 {
	list := l.seqsOf(t)
	i, exact := slices.BinarySearch(list, atOrBelow)
	switch {
	case exact:
		return atOrBelow
	case i == 0:
		return 0
	}
	return list[i-1]
}
