// Package daemon puts a running node together from its configuration: listeners, cluster node, data plane, control plane,
// metrics.
//
// It promises that Start either returns a node that serves or leaves nothing behind; that a port in use is an error which
// names the key to change; that a node which has fetched a snapshot is closed and opened again in the same process, on the
// same ports; and that Shutdown first sends clients elsewhere, then hands leadership over, then closes. It
// decides nothing about messages, and it does not read configuration: that is internal/config.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/config"
)

// turnAwayWait is how long clients of a removed node have for their last acks.
const turnAwayWait = 10 * time.Second

// readyPoll is how often WaitReady looks.
const readyPoll = 5 * time.Millisecond

// Options of Start.
type Options struct {
	Config  *config.Loaded
	Version string       // of the binary
	Logger  hclog.Logger // nil: silent
}

// Daemon is a running node. Its goroutines are the control plane's port and the watcher, which turns the first failure of any part
// into the daemon's and opens the node again when it asks for that; Shutdown stops them and waits for them.
type Daemon struct {
	o     Options
	addrs addrs
	http  *port

	mu struct {
		sync.Mutex
		current *instance // the newest; closed while the node is being opened again, and after that failed
	}

	failed  chan struct{}
	failure error // set before failed is closed

	watchStop, watchDone chan struct{} // of the watcher
}

// Start brings a node up. It returns when the node serves, not when it is ready.
func Start(o Options) (*Daemon, error) {
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	c := &o.Config.Config
	clientL, err := listen("listen.client", c.Listen.Client)
	if err != nil {
		return nil, err
	}
	httpL, err := listen("listen.http", c.Listen.HTTP)
	if err != nil {
		return nil, errors.Join(err, clientL.Close())
	}
	d := &Daemon{
		o: o, addrs: newAddrs(c, clientL.Addr(), httpL.Addr()),
		failed: make(chan struct{}), watchStop: make(chan struct{}), watchDone: make(chan struct{}),
	}
	d.http = newPort(httpL)
	i, err := d.open(clientL)
	if err != nil {
		return nil, errors.Join(explainBind(c, err), clientL.Close(), d.http.close())
	}
	d.addrs.bound(i.node)
	d.mu.current = i
	go d.watch()
	return d, nil
}

func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// instance is the newest instance of the node.
func (d *Daemon) instance() *instance {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.current
}

// watch waits for a failure, and opens the node again if that is all it needs, until Shutdown.
func (d *Daemon) watch() {
	defer close(d.watchDone)
	for {
		i := d.instance()
		var err error
		select {
		case <-i.node.Failed():
			err = i.node.Err()
		case err = <-i.broken:
		case <-d.watchStop:
			return
		}
		if errors.Is(err, cluster.ErrReopen) {
			if err = d.reopen(i); err == nil {
				continue
			}
		}
		d.failure = err
		close(d.failed)
		return
	}
}

// NodeID is the node's stored id.
func (d *Daemon) NodeID() string { return d.instance().node.NodeID() }

// ClientAddr is the address of the data plane as others dial it.
func (d *Daemon) ClientAddr() string { return d.addrs.client }

// HTTPAddr is the address of the control plane as others dial it.
func (d *Daemon) HTTPAddr() string { return d.addrs.http }

// Failed is closed when the node must stop; Err then says why.
func (d *Daemon) Failed() <-chan struct{} { return d.failed }

// Err is why the node must stop; call it after Failed was closed.
func (d *Daemon) Err() error { return d.failure }

// WaitReady waits until the node has applied what was committed when it started and knows a leader. The error of a wait
// that was cut short says what is still missing.
func (d *Daemon) WaitReady(ctx context.Context) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		err := d.instance().node.Ready()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-d.failed:
			return d.failure
		case <-ctx.Done():
			return fmt.Errorf("wait for the node to be ready: %w: %w", ctx.Err(), err)
		}
	}
}

// Shutdown sends clients elsewhere, steps down, and closes everything. When ctx ends, what is left is dropped. Call it
// once.
func (d *Daemon) Shutdown(ctx context.Context) error {
	close(d.watchStop)
	<-d.watchDone
	return errors.Join(d.instance().close(ctx), d.http.close())
}
