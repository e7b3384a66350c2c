package cluster

import (
	"fmt"
	"time"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/bugs"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// lead proposes while there is something to propose and room in raft. Nothing in flight: at once. Else it gathers until
// an entry is full, so that batches which come while raft is busy share the next entry.
func (p *proposer) lead(sess *session, now time.Time) {
	if !p.afterRefusal(sess, now) {
		return
	}
	if p.diskLow.Load() {
		p.refuseAll(fsm.DiskFull)
	}
	for {
		pending, paused := sess.load()
		if paused || pending >= p.inflight {
			return
		}
		if c := p.nextCommand(); c != nil {
			p.proposeCommand(sess, c)
			continue
		}
		items := p.take(sess, pending)
		if len(items) == 0 || !p.proposePublish(sess, items) {
			return
		}
	}
}

// afterRefusal brings refused batches back to the queue's front, waits a little before they are proposed again, and
// gives the node up when raft refuses for too long. It is true when proposing may go on.
func (p *proposer) afterRefusal(sess *session, now time.Time) bool {
	if items := sess.takeReturned(); len(items) > 0 {
		p.putBack(items)
		p.retryAt = now.Add(retryRefused)
	}
	if d := sess.refusedFor(); d > p.stuckAfter {
		p.stuck(fmt.Errorf("raft leads but has refused every entry for %v: a leadership transfer is stuck: restart the node", d.Round(time.Millisecond)))
		return false
	}
	if now.Before(p.retryAt) {
		return false
	}
	p.retryAt = time.Time{}
	return true
}

// take pops the batches of the next entry: nil while it is better to gather.
func (p *proposer) take(sess *session, pending int) []queued {
	p.mu.Lock()
	n := p.mu.queue.len()
	if n == 0 || pending > 0 && p.mu.bytes < record.MaxEntryBody {
		p.mu.Unlock()
		return nil
	}
	p.mu.Unlock()
	items, bytes := sess.itemSlice(), 0
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.mu.queue.len() > 0 {
		size := p.mu.queue.front().size
		if len(items) > 0 && bytes+size > record.MaxEntryBody {
			break
		}
		bytes += size
		items = append(items, p.popLocked())
	}
	return items
}

// proposePublish proposes items as one entry. What does not fit, because of the names of new topics, goes back. It is
// false when the session takes nothing more.
func (p *proposer) proposePublish(sess *session, items []queued) bool {
	p.builder.Reset()
	kept, rest := items[:0], []queued(nil)
	for i, it := range items {
		if len(kept) > 0 && p.builder.Size()+len(it.s.Batch) > record.MaxEntryBody {
			rest = items[i:]
			break
		}
		if !p.add(it.s) {
			p.complete(it, fsm.Result{Code: fsm.Invalid})
			continue
		}
		kept = append(kept, it)
	}
	if len(rest) > 0 {
		p.putBack(rest)
		clear(rest)
	}
	if len(kept) == 0 {
		sess.recycle(items)
		return true
	}
	prop := &proposal{number: sess.nextNumber(), items: kept}
	raw := p.builder.Size()
	data := p.builder.Finish(p.codec, p.header(sess, prop, record.KindPublish))
	p.metrics.entry(raw, len(data), len(kept))
	return p.propose(sess, prop, data)
}

// add copies a batch into the entry. It is false if a topic number means nothing: such an entry would stop every node.
func (p *proposer) add(s *Submission) bool {
	fresh, ok := p.checkTopics(s)
	if !ok {
		return false
	}
	b := record.Batch(p.builder.AddBatch(s.Batch))
	if !fresh {
		return true
	}
	for i := range b.Header().Preconditions {
		if t := b.Precondition(i).Topic; t >= record.NewTopic {
			b.SetPreconditionTopic(i, p.number(s.Names[t-record.NewTopic]))
		}
	}
	for run := b.Records(); len(run) > 0; run = run[record.Scan(run):] {
		if t := record.Record(run).Topic(); t >= record.NewTopic {
			record.SetTopic(run, p.number(s.Names[t-record.NewTopic]))
		}
	}
	return true
}

// checkTopics tells whether all topic numbers of a batch are known, and whether any of them is a new name.
func (p *proposer) checkTopics(s *Submission) (fresh, ok bool) {
	table, names := p.stream.Table(), uint32(len(s.Names))
	nodes := uint32(table.Nodes())
	for i := range s.Batch.Header().Preconditions {
		t := s.Batch.Precondition(i).Topic
		if t >= nodes && (t < record.NewTopic || t-record.NewTopic >= names) {
			return fresh, false
		}
		fresh = fresh || t >= record.NewTopic
	}
	known := ^uint32(0) // checked just before: most records have their neighbour's topic
	for run := s.Batch.Records(); len(run) > 0; run = run[record.Scan(run):] {
		t := record.Record(run).Topic()
		switch {
		case t == known:
			continue
		case t >= record.NewTopic:
			if t-record.NewTopic >= names {
				return fresh, false
			}
			fresh = true
		case t >= nodes || !table.IsTopic(topic.ID(t)):
			return fresh, false
		}
		known = t
	}
	return fresh, true
}

// number is a name's id if it is an applied topic, else its place in the entry's table of new names. Ids of applied
// topics are the same on every node, and the entry that made them stands before this one in the log.
func (p *proposer) number(name string) uint32 {
	table := p.stream.Table()
	if id, ok := table.Lookup(name); ok && table.IsTopic(id) {
		return uint32(id)
	}
	return p.builder.NewTopicRef(name)
}

// header stamps an entry.
func (p *proposer) header(sess *session, prop *proposal, k record.Kind) record.EntryHeader {
	prop.started = time.Now()
	p.stamp.next(p.clock().UnixNano(), p.stream.Machine().LastTime(), prop.started)
	return record.EntryHeader{Kind: k, Time: p.stamp.last, Proposer: sess.id, Proposal: prop.number}
}

// stamp is the time of entries. It never goes back, whatever the clock does. While the clock is behind, because it was set or because
// the leader before had one that was ahead, time goes on at half its pace until the clock has come up: so it does not stand still, windows end by
// age, and a start at a time finds a place.
type stamp struct {
	last int64     // unix nanoseconds
	at   time.Time // when last was made, by the clock that nobody sets
}

// next moves last on. clock is the wall clock, applied the time of the last applied entry.
func (s *stamp) next(clock, applied int64, now time.Time) {
	if !s.at.IsZero() {
		s.last += int64(now.Sub(s.at) / 2)
	}
	s.last, s.at = max(clock, applied, s.last), now
}

// propose gives an entry to raft. raft keeps data: it is not touched again.
func (p *proposer) propose(sess *session, prop *proposal, data []byte) bool {
	if !sess.register(prop) {
		if prop.done != nil {
			prop.done <- fsm.Result{Code: fsm.NotLeader}
		} else {
			p.putBack(prop.items)
		}
		return false
	}
	if bugs.AckEarly {
		for _, it := range prop.items {
			p.complete(it, fsm.Result{Code: fsm.Duplicate}) // an ack without a place
		}
		prop.items = nil
	}
	prop.future = p.raft.Apply(data, 0)
	sess.watch(prop)
	return true
}

// refuseAll completes everything queued with a code that means not executed.
func (p *proposer) refuseAll(code fsm.Code) {
	p.mu.Lock()
	items := make([]queued, 0, p.mu.queue.len())
	for p.mu.queue.len() > 0 {
		items = append(items, p.popLocked())
	}
	p.mu.Unlock()
	for _, it := range items {
		p.complete(it, fsm.Result{Code: code})
	}
}
