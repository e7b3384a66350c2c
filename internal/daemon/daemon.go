// Package daemon puts a running node together from its configuration: listeners, cluster node, data plane, control plane,
// metrics.
//
// It promises that Start either returns a node that serves or leaves nothing behind; that a port in use is an error which
// names the key to change; and that Shutdown first sends clients elsewhere, then hands leadership over, then closes. It
// decides nothing about messages, and it does not read configuration: that is internal/config.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/config"
	"github.com/cantus-bus/cantus/transport"
	"github.com/cantus-bus/cantus/transport/http"
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

// Daemon is a running node. Its goroutines are the two Serve loops and the watchers for failures and for the node's removal;
// Shutdown stops them and waits for them.
type Daemon struct {
	node *cluster.Node
	data *transport.Server
	ctrl *http.Server

	clientAddr, httpAddr string
	served               chan error // one value from each of the two Serve loops, which end when their server is shut down
	failed               chan struct{}
	failure              error // set before failed is closed

	watchStop, watchDone chan struct{} // of the goroutine that closes failed
	turnedAway           chan struct{} // closed when turnAway is over; it ends by watchStop, too
}

// Start brings a node up. It returns when the node serves, not when it is ready.
func Start(o Options) (d *Daemon, err error) {
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
	registry := newRegistry()
	opts := clusterOptions(c, o, registry)
	opts.ClientAddr = reachable(c, clientL.Addr())
	opts.HTTPAddr = reachable(c, httpL.Addr())
	node, err := cluster.Open(opts)
	if err != nil {
		return nil, errors.Join(explainBind(c, err), clientL.Close(), httpL.Close())
	}
	d = &Daemon{
		node: node, clientAddr: opts.ClientAddr, httpAddr: opts.HTTPAddr,
		data:   transport.NewServer(transportOptions(c, node, o.Logger, registry)),
		ctrl:   http.NewServer(httpOptions(o, node, registry)),
		served: make(chan error, 2),
		failed: make(chan struct{}),

		watchStop: make(chan struct{}),
		watchDone: make(chan struct{}),

		turnedAway: make(chan struct{}),
	}
	d.serve(clientL, httpL)
	return d, nil
}

// serve starts the two Serve loops and the watcher that turns the first failure of any part into the daemon's.
func (d *Daemon) serve(clientL, httpL net.Listener) {
	broken := make(chan error, 2)
	loop := func(serve func(net.Listener) error, l net.Listener) {
		err := serve(l)
		if err != nil {
			broken <- err
		}
		d.served <- err
	}
	go loop(d.data.Serve, clientL)
	go loop(d.ctrl.Serve, httpL)
	go d.turnAway()
	go func() {
		defer close(d.watchDone)
		select {
		case <-d.node.Failed():
			d.failure = d.node.Err()
		case d.failure = <-broken:
		case <-d.watchStop:
			return
		}
		close(d.failed)
	}()
}

// turnAway sends the clients of a node that was removed elsewhere and takes no more: here readers would wait for ever and
// publishers be refused. The control plane stays, to say why.
func (d *Daemon) turnAway() {
	defer close(d.turnedAway)
	select {
	case <-d.node.Removed():
	case <-d.watchStop:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), turnAwayWait)
	defer cancel()
	// What had not finished in time is closed: the error says only that.
	_ = d.data.Shutdown(ctx)
}

func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// NodeID is the node's stored id.
func (d *Daemon) NodeID() string { return d.node.NodeID() }

// ClientAddr is the address of the data plane as others dial it.
func (d *Daemon) ClientAddr() string { return d.clientAddr }

// HTTPAddr is the address of the control plane as others dial it.
func (d *Daemon) HTTPAddr() string { return d.httpAddr }

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
		err := d.node.Ready()
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
	errs := []error{d.data.Shutdown(ctx), d.ctrl.Shutdown(ctx)}
	if errs[1] != nil {
		errs = append(errs, d.ctrl.Close())
	}
	<-d.turnedAway
	<-d.served
	<-d.served
	return errors.Join(append(errs, d.node.Close())...)
}
