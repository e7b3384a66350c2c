package fake

import (
	"fmt"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
)

// faults are what will go wrong with the next frames.
type faults struct {
	skipData   int // DATA frames not sent
	repeatData int // DATA frames sent twice
	publishes  []publishFault
	openings   int           // OPEN_PRODUCER frames held
	delay      time.Duration // before each frame from a client is read
}

// publishFault is what happens to one PUBLISH.
type publishFault struct {
	execute bool
	cut     bool // the connection ends instead of an answer
	code    wire.Code
}

// SkipData makes the next n data frames vanish, as a broken server would lose them: what follows goes on as if they had
// been sent.
func (b *Broker) SkipData(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.faults.skipData += n
}

// RepeatData sends the next n data frames twice.
func (b *Broker) RepeatData(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.faults.repeatData += n
}

// LoseAcks executes the next n publishes of a batch and ends the connection instead of answering.
func (b *Broker) LoseAcks(n int) { b.fault(n, publishFault{execute: true, cut: true}) }

// LosePublishes ends the connection at the next n publishes and executes none of them.
func (b *Broker) LosePublishes(n int) { b.fault(n, publishFault{cut: true}) }

// FailPublishes answers the next n publishes with a code, having executed them or not. For a code that says whether
// they were, tell the truth.
func (b *Broker) FailPublishes(n int, code client.Code, execute bool) {
	b.fault(n, publishFault{execute: execute, code: wire.Code(code)})
}

// HoldOpenings keeps the next n openings of producers from being executed and ends the connection instead of answering, as a
// server that goes on trying behind its client's back.
func (b *Broker) HoldOpenings(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.faults.openings += n
}

// ReleaseOpenings executes what HoldOpenings has kept, for nobody to hear of.
func (b *Broker) ReleaseOpenings() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range b.mu.held {
		b.openLocked(id)
	}
	b.mu.held = nil
}

// fault queues what happens to the next n publishes after those that are queued already.
func (b *Broker) fault(n int, f publishFault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range n {
		b.mu.faults.publishes = append(b.mu.faults.publishes, f)
	}
}

// takeLocked returns the fault of a publish that is being handled.
func (f *faults) takeLocked() (publishFault, bool) {
	if len(f.publishes) == 0 {
		return publishFault{}, false
	}
	p := f.publishes[0]
	f.publishes = f.publishes[1:]
	return p, true
}

// Faults is how many frames are still to go wrong.
func (b *Broker) Faults() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := &b.mu.faults
	return f.skipData + f.repeatData + f.openings + len(f.publishes)
}

// ClearFaults forgets what was to go wrong with frames.
func (b *Broker) ClearFaults() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.faults = faults{}
}

// Delay makes every node take this long before it reads a frame.
func (b *Broker) Delay(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.faults.delay = d
}

// DropConns ends all connections of a node, which stays up.
func (b *Broker) DropConns(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropLocked(b.mu.nodes[i])
}

// Stop kills a node: its connections end and new ones are refused. If it leads there is no leader until SetLeader.
func (b *Broker) Stop(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.mu.nodes[i]
	n.up = false
	b.dropLocked(n)
	if b.mu.leader == i {
		b.mu.leader = -1
		b.mu.term++
	}
	b.announceLocked()
}

// Start brings a stopped node back.
func (b *Broker) Start(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.nodes[i].up = true
	b.announceLocked()
}

// SetLeader makes node i the leader; -1: there is none, and publishes are refused as not executed.
func (b *Broker) SetLeader(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.leader = i
	b.mu.term++
	b.announceLocked()
}

// Leader is the index of the leading node, -1 if there is none.
func (b *Broker) Leader() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.leader
}

// Freeze makes a node hang, as a stopped process does: its connections stay and nothing is read or written.
func (b *Broker) Freeze(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := b.mu.nodes[i]; n.thaw == nil {
		n.thaw = make(chan struct{})
	}
}

// Thaw ends Freeze.
func (b *Broker) Thaw(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.nodes[i].thawLocked()
}

// Hold makes a node lag: its readers see nothing that is published from now on.
func (b *Broker) Hold(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.mu.nodes[i]
	n.heldAt, n.held = b.appliedLocked(n), true
}

// Release ends Hold.
func (b *Broker) Release(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.nodes[i].held = false
	b.deliverLocked()
}

// Damage makes a node unable to read the message with a seq: it ends subscriptions that come to it. 0: it can read all again.
func (b *Broker) Damage(i int, seq uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.nodes[i].damaged = seq
}

// Goodbye makes a node tell its clients to go elsewhere; it goes on serving them.
func (b *Broker) Goodbye(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.mu.nodes[i].sessions {
		s.sendLocked(func(out []byte) []byte { return wire.AppendEmpty(out, wire.TGoodbye, 0) })
	}
}

// Trim forgets messages below seq, as retention does.
func (b *Broker) Trim(seq uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(max(seq, b.mu.trimmed+1)-b.mu.trimmed-1, uint64(len(b.mu.messages)))
	b.mu.messages = b.mu.messages[n:]
	b.mu.trimmed += n
}

// ExpireProducer forgets a producer, as the end of its lease does.
func (b *Broker) ExpireProducer(id client.ProducerID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.mu.producers, id)
}

// Connections is how many clients are connected to a node.
func (b *Broker) Connections(i int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.mu.nodes[i].sessions)
}

// Message is a message of the stream.
type Message struct {
	Seq     uint64
	Time    time.Time
	Topic   string
	Payload []byte
	Headers []client.Header
}

// Messages returns a copy of all messages that are kept.
func (b *Broker) Messages() []Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]Message, 0, len(b.mu.messages))
	for _, m := range b.mu.messages {
		r := record.First(m.rec)
		list = append(list, Message{Seq: r.Seq(), Time: time.Unix(0, r.Time()), Topic: b.mu.names[m.topic],
			Payload: append([]byte(nil), r.Payload()...), Headers: r.Headers()})
	}
	return list
}

// LastSeq is the newest seq of the stream, 0: it is empty.
func (b *Broker) LastSeq() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lastSeqLocked()
}

// Publish adds a message as if another client had published it, whatever faults there are, and returns its seq.
func (b *Broker) Publish(name string, payload []byte, headers ...client.Header) (uint64, error) {
	if err := topic.Validate(name); err != nil {
		return 0, fmt.Errorf("publish: %w", err)
	}
	rec, err := record.AppendRecord(nil, 0, headers, payload)
	if err != nil {
		return 0, fmt.Errorf("publish to %s: %w", name, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	id, ok := b.internLocked(name)
	if !ok {
		return 0, fmt.Errorf("publish to %s: %w", name, client.ErrTooManyTopics)
	}
	b.mu.time = max(b.mu.time, time.Now().UnixNano())
	b.storeLocked(id, rec)
	b.deliverLocked()
	return b.lastSeqLocked(), nil
}
