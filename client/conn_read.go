package client

import (
	"fmt"

	"github.com/cantus-bus/cantus/internal/wire"
)

// readLoop takes frames off the socket and gives each to who waits for it.
func (cn *conn) readLoop() {
	defer cn.r.Close()
	for {
		f, err := cn.r.Next()
		if err == nil {
			cn.heard.Add(1)
			err = cn.dispatch(&f)
		}
		if err != nil {
			cn.fail(err)
			return
		}
	}
}

// dispatch handles one frame. An error ends the connection.
func (cn *conn) dispatch(f *wire.Frame) error {
	switch f.Type {
	case wire.TAck:
		return cn.onAck(f)
	case wire.TData, wire.TSubscribed, wire.TProgress, wire.TCaughtUp, wire.TEnded:
		return cn.toLink(f)
	case wire.TTopicNames:
		return cn.onTopicNames(f)
	case wire.TProducerOpened:
		return cn.onOpened(f)
	case wire.TTopology:
		t, err := wire.DecodeTopology(f.Body)
		if err != nil {
			return err
		}
		cn.c.learn(fromWire(&t))
	case wire.TPing:
		cn.send(func(out []byte) []byte { return wire.AppendEmpty(out, wire.TPong, f.ID) })
	case wire.TAnswer:
		return cn.onAnswer(f)
	case wire.TPong:
	case wire.TGoodbye:
		cn.leaving.Store(true)
		cn.c.nudge(cn)
	case wire.TError:
		return cn.onError(f)
	default:
		return &Error{Op: "read frame", Code: CodeProtocol, Message: fmt.Sprintf("unexpected %v", f.Type)}
	}
	return nil
}

// take removes a waiting request.
func (cn *conn) take(id uint32) (pending, bool) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	w, ok := cn.mu.pending[id]
	delete(cn.mu.pending, id)
	return w, ok
}

func (cn *conn) onAck(f *wire.Frame) error {
	a, err := wire.DecodeAck(f.Body)
	if err != nil {
		return err
	}
	if w, ok := cn.take(f.ID); ok && w.b != nil {
		w.p.onAck(w, &a, "")
	}
	return nil
}

func (cn *conn) onOpened(f *wire.Frame) error {
	o, err := wire.DecodeProducerOpened(f.Body)
	if err != nil {
		return err
	}
	if w, ok := cn.take(f.ID); ok && w.opened != nil {
		w.opened <- openAnswer{opened: o}
	}
	return nil
}

func (cn *conn) onTopicNames(f *wire.Frame) error {
	names, err := wire.DecodeTopicNames(f.Body)
	if err != nil {
		return err
	}
	for _, n := range names {
		if !cn.names.set(n.ID, n.Name) {
			return &Error{Op: "read topic names", Code: CodeProtocol,
				Message: fmt.Sprintf("id %d for %q is too high or has another name", n.ID, n.Name)}
		}
	}
	return nil
}

// onError handles a refusal of the connection (id 0), of a request or of a subscription.
func (cn *conn) onError(f *wire.Frame) error {
	e, err := wire.DecodeError(f.Body)
	if err != nil {
		return err
	}
	if f.ID == 0 {
		return remote("server closed the connection", e)
	}
	if w, ok := cn.take(f.ID); ok {
		if w.opened != nil {
			w.opened <- openAnswer{err: remote("open producer", e)}
			return nil
		}
		if w.queried != nil {
			w.queried <- queryAnswer{err: remote(w.op, e)}
			return nil
		}
		w.p.onAck(w, &wire.Ack{Code: e.Code, Detail: e.Detail}, e.Message)
		return nil
	}
	cn.endLink(f.ID, &e)
	return nil
}
