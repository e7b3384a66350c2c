package cluster

import (
	"time"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/wire"
)

// write is the link's sender: it hands over what has gathered, and a ping when nothing does.
func (l *link) write() {
	defer l.loops.Done()
	defer l.close()
	t := time.NewTicker(linkHeartbeat)
	defer t.Stop()
	var out []byte
	for {
		select {
		case <-l.done:
			return
		case <-l.kick:
		case <-t.C:
			l.ping()
		}
		out = l.swap(out[:0])
		if len(out) == 0 {
			continue
		}
		_ = l.conn.SetWriteDeadline(time.Now().Add(linkWriteLimit))
		if _, err := l.conn.Write(out); err != nil {
			return
		}
		l.box.wakeUp() // the link can take more
	}
}

// swap takes the gathered bytes and counts them as handed to the connection: from now on they may arrive.
func (l *link) swap(empty []byte) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.mu.buf
	l.mu.buf = empty
	l.mu.handed += uint64(len(out))
	return out
}

func (l *link) ping() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.mu.buf) == 0 {
		l.mu.buf = wire.AppendEmpty(l.mu.buf, wire.TPing, 0)
	}
}

// read is the link's receiver. It ends when the connection does.
func (l *link) read(r *wire.Reader) {
	defer l.loops.Done()
	defer l.close()
	for {
		_ = l.conn.SetReadDeadline(time.Now().Add(linkDead))
		f, err := r.Next()
		if err != nil || !l.receive(f) {
			return
		}
	}
}

// receive handles one frame. It is false when the link must end.
func (l *link) receive(f wire.Frame) bool {
	switch f.Type {
	case wire.TAck:
		a, err := wire.DecodeAck(f.Body)
		if err != nil {
			return false
		}
		l.settle(f.ID, fsm.Result{Code: fsmCode(a.Code), Index: a.Index, Count: a.Count, FirstSeq: a.FirstSeq, Time: a.Time, Detail: a.Detail})
	case wire.TProducerOpened:
		o, err := wire.DecodeProducerOpened(f.Body)
		if err != nil {
			return false
		}
		l.settle(f.ID, fsm.Result{Code: fsmCode(o.Code), Detail: o.Detail, Epoch: o.Epoch, LastNumber: o.LastNumber, LastSeq: o.LastSeq})
	case wire.TError:
		e, err := wire.DecodeError(f.Body)
		if err != nil || f.ID == 0 {
			return false
		}
		l.settle(f.ID, fsm.Result{Code: fsmCode(e.Code), Detail: e.Detail})
	case wire.TPing:
		l.mu.Lock()
		l.mu.buf = wire.AppendEmpty(l.mu.buf, wire.TPong, f.ID)
		l.mu.Unlock()
		l.signal()
	case wire.TGoodbye:
		l.markStale()
	}
	return true // what else comes is for clients
}

// fsmCode is the outcome that a code of the wire means. The others say that the request was refused.
func fsmCode(c wire.Code) fsm.Code {
	switch {
	case c < wire.CodeProtocol:
		return fsm.Code(c)
	case c == wire.CodeTooLarge:
		return fsm.TooLarge
	case c == wire.CodeShutdown:
		return fsm.NotLeader
	case c == wire.CodeBadTopic:
		return fsm.Invalid
	}
	return fsm.Unknown
}

// settle ends the request of an answer.
func (l *link) settle(id uint32, r fsm.Result) {
	notLeading := r.Code == fsm.NotLeader || r.Code == fsm.ShuttingDown
	l.mu.Lock()
	w, ok := l.mu.waiting[id]
	delete(l.mu.waiting, id)
	again := ok && w.opens == nil && notLeading && id > l.mu.acked && !l.mu.closed
	var late []queued
	switch {
	case again:
		l.mu.returned[id] = w.item
		l.mu.stale = true
	case ok && w.opens == nil && !notLeading:
		l.mu.acked = max(l.mu.acked, id)
		late = takeBefore(l.mu.returned, id)
	}
	l.mu.Unlock()
	for _, it := range late {
		l.box.complete(it, fsm.Result{Code: fsm.Unavailable})
	}
	switch {
	case again || !ok:
		return
	case w.opens != nil:
		w.opens <- r
		return
	case notLeading: // something later was executed: it would come out of order
		r = fsm.Result{Code: fsm.Unavailable}
	}
	l.box.complete(w.item, r)
	l.box.progress()
}

// takeBefore takes the items with ids below id out of returned, in order.
func takeBefore(returned map[uint32]queued, id uint32) []queued {
	if len(returned) == 0 {
		return nil
	}
	earlier := make(map[uint32]queued)
	for i, it := range returned {
		if i < id {
			earlier[i] = it
			delete(returned, i)
		}
	}
	return inOrder(earlier)
}
