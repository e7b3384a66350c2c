package client

import (
	"context"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
)

// maxDefineBytes is how many bytes of names go into one DEFINE_TOPICS frame.
const maxDefineBytes = 64 << 10

// publish queues a batch, after the aliases that it needs, and expects its answer. The batch must stay as it is until
// its answer came or its generation is over.
func (cn *conn) publish(p *Producer, b *batch, gen uint32) error {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	id, err := cn.nextIDLocked()
	if err != nil {
		return err
	}
	cn.defineLocked(b.topics)
	cn.defineLocked(b.pre)
	cn.aliasLocked(b)
	cn.mu.out = wire.AppendPublish(cn.mu.out, id, b.bytes)
	cn.mu.pending[id] = pending{p: p, b: b, gen: gen}
	cn.wakeWriter()
	return nil
}

// defineLocked gives an alias to each of the topics that has none and tells the server.
func (cn *conn) defineLocked(topics []uint32) {
	size := 0
	for _, t := range topics {
		if int(t) >= len(cn.mu.aliases) {
			grown := make([]uint32, max(2*len(cn.mu.aliases), int(t)+1, 1024))
			copy(grown, cn.mu.aliases)
			cn.mu.aliases = grown
		}
		if cn.mu.aliases[t] != 0 {
			continue
		}
		name := cn.c.topics.name(t)
		if size+len(name) > maxDefineBytes {
			cn.flushNamesLocked()
			size = 0
		}
		size += len(name)
		cn.mu.names = append(cn.mu.names, name)
		cn.mu.nAlias++
		cn.mu.aliases[t] = cn.mu.nAlias
	}
	cn.flushNamesLocked()
}

// flushNamesLocked sends the gathered definitions, the last of which has alias nAlias-1.
func (cn *conn) flushNamesLocked() {
	n := uint32(len(cn.mu.names))
	if n == 0 {
		return
	}
	d := wire.DefineTopics{FirstAlias: cn.mu.nAlias - n, Names: cn.mu.names}
	cn.mu.out = wire.AppendDefineTopics(cn.mu.out, &d)
	clear(cn.mu.names)
	cn.mu.names = cn.mu.names[:0]
}

// aliasLocked writes this connection's aliases into the batch.
func (cn *conn) aliasLocked(b *batch) {
	for i, t := range b.pre {
		b.bytes.SetPreconditionTopic(i, cn.mu.aliases[t]-1)
	}
	run := b.bytes.Records()
	for _, t := range b.topics {
		record.SetTopic(run, cn.mu.aliases[t]-1)
		run = run[record.Scan(run):]
	}
}

// openProducer asks for the next epoch of a producer.
func (cn *conn) openProducer(ctx context.Context, id record.ProducerID) (wire.ProducerOpened, error) {
	ch := make(chan openAnswer, 1)
	cn.mu.Lock()
	req, err := cn.nextIDLocked()
	if err != nil {
		cn.mu.Unlock()
		return wire.ProducerOpened{}, err
	}
	cn.mu.out = wire.AppendOpenProducer(cn.mu.out, req, wire.OpenProducer{ID: id})
	cn.mu.pending[req] = pending{opened: ch}
	cn.mu.Unlock()
	cn.wakeWriter()
	select {
	case a := <-ch:
		if a.err == nil && a.opened.Code != 0 {
			a.err = remote("open producer", wire.Error{Code: a.opened.Code, Detail: a.opened.Detail})
		}
		return a.opened, a.err
	case <-ctx.Done():
		cn.take(req)
		return wire.ProducerOpened{}, ctx.Err()
	}
}

// forget drops the answers that p still expects here: batches of an older generation may be changed or reused.
func (cn *conn) forget(p *Producer) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	for id, w := range cn.mu.pending {
		if w.p == p {
			delete(cn.mu.pending, id)
		}
	}
}
