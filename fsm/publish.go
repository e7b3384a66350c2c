package fsm

import (
	"fmt"

	"github.com/cantus-bus/cantus/internal/bugs"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// newName is what is known of a name in the entry's table of new names.
type newName struct {
	valid    bool
	resolved bool // newIDs has its id. A name is interned when the first batch that uses it is published, not before
}

// applyPublish applies the batches of an entry in order.
func (m *Machine) applyPublish(index uint64, body []byte, dst []Result) ([]Result, error) {
	names, batches, err := record.PublishBody(body, m.names[:0])
	if err != nil {
		return nil, err
	}
	m.names = names
	defer clear(names) // they point into the entry
	if err := m.checkTopics(batches, uint32(len(names))); err != nil {
		return nil, err
	}
	m.begin(index)
	m.prepareNames()
	before, storedBefore := m.seq, m.storedBytes
	for len(batches) > 0 {
		var b record.Batch
		b, batches = record.NextBatch(batches)
		dst = append(dst, m.applyBatch(b))
	}
	m.volumes.flush(m.table)
	if m.seq != before {
		m.log.Publish()
		m.messageTime.Store(m.time)
		m.windows.grow(before+1, m.seq, m.storedBytes-storedBefore, m.now)
	}
	return dst, nil
}

// checkTopics refuses an entry that names topics which do not exist here: the proposer's table and this one differ.
func (m *Machine) checkTopics(batches []byte, names uint32) error {
	nodes := uint32(m.table.Nodes())
	for n := 0; len(batches) > 0; n++ {
		var b record.Batch
		b, batches = record.NextBatch(batches)
		if t, ok := m.checkBatch(b, names, nodes); !ok {
			return fmt.Errorf("batch %d names topic %#x of %d nodes and %d new names: %w", n, t, nodes, names, ErrInvariant)
		}
	}
	return nil
}

// checkBatch returns the first topic number that means nothing here.
func (m *Machine) checkBatch(b record.Batch, names, nodes uint32) (bad uint32, ok bool) {
	for i := range b.Header().Preconditions {
		t := b.Precondition(i).Topic
		if t >= nodes && (t < record.NewTopic || t-record.NewTopic >= names) {
			return t, false
		}
	}
	known := ^uint32(0) // checked just before: most records have their neighbour's topic
	for run := b.Records(); len(run) > 0; run = run[record.Scan(run):] {
		t := record.Record(run).Topic()
		if t == known {
			continue
		}
		if t >= record.NewTopic {
			ok = t-record.NewTopic < names
		} else {
			ok = t < nodes && m.table.IsTopic(topic.ID(t))
		}
		if !ok {
			return t, false
		}
		known = t
	}
	return 0, true
}

// prepareNames readies the scratch for the entry's new names.
func (m *Machine) prepareNames() {
	m.newNames, m.newIDs = m.newNames[:0], m.newIDs[:0]
	for _, name := range m.names {
		m.newNames = append(m.newNames, newName{valid: topic.Validate(string(name)) == nil})
		m.newIDs = append(m.newIDs, 0)
	}
}

// applyBatch publishes a batch or says why not. The order of the questions is part of the log's meaning: producer, names,
// preconditions, room for topics.
func (m *Machine) applyBatch(b record.Batch) Result {
	h := b.Header()
	r := Result{Count: h.Count}
	var p *producer
	if h.Producer != (record.ProducerID{}) {
		if p = m.producers.admit(&h, m.now, &r); p == nil && !(bugs.NoDedupe && r.Code == Duplicate) {
			return r
		}
	}
	if m.namesValid(b, &h, &r) && m.preconditionsHold(b, &h, &r) && m.intern(b, &r) {
		m.publish(b, &r)
	}
	if p != nil {
		p.settle(&h, &r)
	}
	return r
}

// namesValid holds the batch's new names against the rules of topics.
func (m *Machine) namesValid(b record.Batch, h *record.BatchHeader, r *Result) bool {
	if len(m.newNames) == 0 {
		return true
	}
	ok := true
	for i := range h.Preconditions {
		t := b.Precondition(i).Topic
		ok = ok && (t < record.NewTopic || m.newNames[t-record.NewTopic].valid)
	}
	for run := b.Records(); ok && len(run) > 0; run = run[record.Scan(run):] {
		t := record.Record(run).Topic()
		ok = t < record.NewTopic || m.newNames[t-record.NewTopic].valid
	}
	if !ok {
		r.Code = Invalid
	}
	return ok
}

// preconditionsHold compares with the topics' last seqs as the batches before this one left them.
func (m *Machine) preconditionsHold(b record.Batch, h *record.BatchHeader, r *Result) bool {
	if h.Preconditions == 0 {
		return true
	}
	m.volumes.flush(m.table)
	for i := range h.Preconditions {
		c := b.Precondition(i)
		if actual := m.lastSeqOf(c.Topic); actual != c.LastSeq {
			r.Code, r.Index, r.Detail = PreconditionFailed, uint16(i), actual
			return false
		}
	}
	return true
}

// lastSeqOf is the last seq of a topic number of the entry; 0 for a topic that has no messages or does not exist.
func (m *Machine) lastSeqOf(t uint32) uint64 {
	id := topic.ID(t)
	if t >= record.NewTopic {
		var ok bool
		if id, ok = m.table.LookupBytes(m.names[t-record.NewTopic]); !ok {
			return 0
		}
	}
	_, _, last := m.table.Stats(id)
	return last
}

// intern makes sure that the batch's new names have ids, in the order of first use, so that ids do not depend on how batches were
// cut into entries. Names that fit stay when a later one of the batch does not.
func (m *Machine) intern(b record.Batch, r *Result) bool {
	if len(m.newNames) == 0 {
		return true
	}
	for run := b.Records(); len(run) > 0; run = run[record.Scan(run):] {
		t := record.Record(run).Topic()
		if t < record.NewTopic || m.newNames[t-record.NewTopic].resolved {
			continue
		}
		i := t - record.NewTopic
		id, _, err := m.table.Intern(m.names[i])
		if err != nil { // the name is valid: the table is full
			r.Code = TooManyTopics
			return false
		}
		m.newIDs[i], m.newNames[i].resolved = id, true
	}
	return true
}

// publish appends the batch's records to the log and counts them.
func (m *Machine) publish(b record.Batch, r *Result) {
	r.FirstSeq, r.Time = m.seq+1, m.now
	stored := m.log.Append(b.Records(), int(r.Count), m.newIDs, r.FirstSeq, m.now)
	_, _ = m.stored.Write(stored) // never fails
	m.storedBytes += uint64(len(stored))
	for run := stored; len(run) > 0; {
		rec := record.First(run)
		m.seq++
		m.volumes.add(m.table, topic.ID(rec.Topic()), rec.BodyBytes(), m.seq)
		run = run[record.Scan(run):]
	}
}
