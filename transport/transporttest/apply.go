package transporttest

import (
	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
)

// run applies until Close.
func (b *Broker) run() {
	defer close(b.done)
	for {
		select {
		case <-b.stop:
			return
		case <-b.waker:
		}
		for items := b.takeUnheld(); len(items) > 0; items = b.takeUnheld() {
			for len(items) > 0 {
				n := b.applySome(items)
				items = items[n:]
			}
		}
	}
}

func (b *Broker) takeUnheld() []item {
	b.mu.Lock()
	held := b.mu.held
	b.mu.Unlock()
	if held {
		return nil
	}
	return b.take()
}

// take empties the queue. The result is valid until the next call.
func (b *Broker) take() []item {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.mu.queue
	b.mu.queue, b.mu.bytes = b.batch[:0], 0
	b.batch = items
	poke(b.room)
	return items
}

// applySome applies the first items as one entry and returns how many they were.
func (b *Broker) applySome(items []item) int {
	if items[0].command != nil {
		b.applyCommand(items[0].command)
		return 1
	}
	b.entry.Reset()
	n := 0
	for _, i := range items {
		if i.sub == nil || n > 0 && b.entry.Size()+len(i.sub.Batch) > record.MaxEntryBody {
			break
		}
		b.add(i.sub)
		n++
	}
	results := b.apply(b.entry.Finish(record.CodecNone, record.EntryHeader{Time: b.now()}))
	b.complete(items[:n], results)
	return n
}

// add puts a batch into the entry, with topic numbers of the entry.
func (b *Broker) add(s *cluster.Submission) {
	batch := record.Batch(b.entry.AddBatch(s.Batch))
	if s.Release != nil {
		s.Release()
	}
	for i := range batch.Header().Preconditions {
		batch.SetPreconditionTopic(i, b.number(s, batch.Precondition(i).Topic))
	}
	last, number := ^uint32(0), uint32(0)
	for run := batch.Records(); len(run) > 0; run = run[record.Scan(run):] {
		if n := record.Record(run).Topic(); n != last {
			last, number = n, b.number(s, n)
		}
		record.SetTopic(run, number)
	}
}

func (b *Broker) applyCommand(c *command) {
	c.done <- b.apply(record.EncodeEntry(record.EntryHeader{Kind: c.kind, Time: b.now()}, c.body))[0]
}

// apply panics when the stream refuses an entry that was just encoded: the test is broken.
func (b *Broker) apply(entry []byte) []fsm.Result {
	b.index++
	_, results, err := b.stream.Apply(b.index, entry, b.results[:0])
	if err != nil {
		panic("transporttest: " + err.Error())
	}
	b.results = results
	b.mu.Lock()
	close(b.mu.applied)
	b.mu.applied = make(chan struct{})
	b.mu.Unlock()
	return results
}

// complete settles items; without results they were not executed.
func (b *Broker) complete(items []item, results []fsm.Result) {
	for i, it := range items {
		r := fsm.Result{Code: fsm.ShuttingDown}
		if i < len(results) {
			r = results[i]
		}
		if it.sub == nil {
			it.command.done <- r
			continue
		}
		if results == nil && it.sub.Release != nil {
			it.sub.Release()
		}
		it.sub.Complete(it.sub, r)
	}
}

var _ cluster.Broker = (*Broker)(nil)
