package daemon

import (
	"context"
	"net"
	nethttp "net/http"
	"sync"
	"time"
)

const (
	// awayHeader bounds the reading of a request's header while the node is being opened again.
	awayHeader = 5 * time.Second
	livePath   = "/v1/health/live" // of the control plane
)

// port is a listening port that outlives those who serve on it, so that whoever watches it sees no gap.
type port struct {
	l     net.Listener
	conns chan net.Conn
	done  chan struct{} // closed by close
	loop  sync.WaitGroup
}

func newPort(l net.Listener) *port {
	p := &port{l: l, conns: make(chan net.Conn), done: make(chan struct{})}
	p.loop.Go(p.accept)
	return p
}

func (p *port) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			select {
			case <-p.done:
				return
			case <-time.After(rebindPause): // such as too many open files: it may pass
				continue
			}
		}
		select {
		case p.conns <- c:
		case <-p.done:
			_ = c.Close()
			return
		}
	}
}

// close ends the port. Those who serve on it must have been shut down.
func (p *port) close() error {
	close(p.done)
	err := p.l.Close()
	p.loop.Wait()
	return err
}

// listener is the port for one who serves on it. Closing it leaves the port open.
func (p *port) listener() net.Listener {
	return &portView{port: p, done: make(chan struct{})}
}

type portView struct {
	port *port
	once sync.Once
	done chan struct{}
}

func (v *portView) Accept() (net.Conn, error) {
	select {
	case <-v.done: // before a connection that waits
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-v.port.conns:
		return c, nil
	case <-v.done:
	case <-v.port.done:
	}
	return nil, net.ErrClosed
}

func (v *portView) Addr() net.Addr { return v.port.l.Addr() }

func (v *portView) Close() error {
	v.once.Do(func() { close(v.done) })
	return nil
}

// serveAway answers in the control plane's place, until the returned function is called: the process lives, and is not ready.
func (p *port) serveAway() (stop func()) {
	srv := &nethttp.Server{ReadHeaderTimeout: awayHeader, Handler: nethttp.HandlerFunc(away)}
	srv.SetKeepAlivesEnabled(false)
	l := p.listener()
	var loop sync.WaitGroup
	loop.Go(func() { _ = srv.Serve(l) })
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), awayHeader)
		defer cancel()
		if srv.Shutdown(ctx) != nil { // somebody has connected and asks nothing
			_ = srv.Close()
		}
		loop.Wait()
	}
}

func away(w nethttp.ResponseWriter, r *nethttp.Request) {
	if r.Method == nethttp.MethodGet && r.URL.Path == livePath {
		_, _ = w.Write([]byte(`{"live":true}` + "\n"))
		return
	}
	w.Header().Set("Retry-After", "1")
	nethttp.Error(w, "the node is being opened again from a snapshot that it has fetched", nethttp.StatusServiceUnavailable)
}
