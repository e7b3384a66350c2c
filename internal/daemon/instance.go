package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/config"
	"github.com/cantus-bus/cantus/transport"
	"github.com/cantus-bus/cantus/transport/http"
)

const (
	// reopenLimit bounds how long clients have to leave a node that is to be opened again: they go on at others, and come back.
	reopenLimit = time.Second
	// rebindLimit is how long a port that was closed for that may be in use.
	rebindLimit = 30 * time.Second
	rebindPause = 20 * time.Millisecond
)

// instance is one opening of the node, with all that serves on it. Its goroutines are the two Serve loops and the one that turns
// clients of a removed node away.
type instance struct {
	node *cluster.Node
	data *transport.Server
	ctrl *http.Server

	broken chan error     // of a Serve loop that failed; capacity 2
	loops  sync.WaitGroup // they end when their server is shut down, and turnAway by stop
	stop   chan struct{}
	once   sync.Once
	err    error // of close
}

// open opens the node and serves on it. After an error clientL is still the caller's.
func (d *Daemon) open(clientL net.Listener) (*instance, error) {
	c, registry := &d.o.Config.Config, newRegistry()
	opts := clusterOptions(c, d.o, registry)
	opts.ClientAddr, opts.HTTPAddr = d.addrs.client, d.addrs.http
	d.addrs.rebind(&opts)
	node, err := cluster.Open(opts)
	if err != nil {
		return nil, err
	}
	i := &instance{
		node:   node,
		data:   transport.NewServer(transportOptions(c, node, d.o.Logger, registry)),
		ctrl:   http.NewServer(httpOptions(d.o, node, registry)),
		broken: make(chan error, 2), stop: make(chan struct{}),
	}
	i.serve(i.data.Serve, clientL)
	i.serve(i.ctrl.Serve, d.http.listener())
	i.loops.Go(i.turnAway)
	return i, nil
}

func (i *instance) serve(serve func(net.Listener) error, l net.Listener) {
	i.loops.Go(func() {
		if err := serve(l); err != nil {
			i.broken <- err
		}
	})
}

// turnAway sends the clients of a node that was removed elsewhere and takes no more: here readers would wait for ever and
// publishers be refused. The control plane stays, to say why.
func (i *instance) turnAway() {
	select {
	case <-i.node.Removed():
	case <-i.stop:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), turnAwayWait)
	defer cancel()
	// What had not finished in time is closed: the error says only that.
	_ = i.data.Shutdown(ctx)
}

// close ends the instance. When ctx ends, what is left is dropped. Closing again does nothing.
func (i *instance) close(ctx context.Context) error {
	i.once.Do(func() {
		close(i.stop)
		errs := []error{i.data.Shutdown(ctx), i.ctrl.Shutdown(ctx)}
		if errs[1] != nil {
			errs = append(errs, i.ctrl.Close())
		}
		i.loops.Wait()
		i.err = errors.Join(append(errs, i.node.Close())...)
	})
	return i.err
}

// reopen closes an instance whose node has fetched a snapshot, and opens the node again, on the same ports. Meanwhile clients find the
// data plane's closed and go to other nodes; the control plane's answers that the node is not ready.
func (d *Daemon) reopen(i *instance) error {
	d.o.Logger.Info("opening the node again", "reason", i.node.Err())
	ctx, cancel := context.WithTimeout(context.Background(), reopenLimit)
	defer cancel()
	away := d.http.serveAway()
	defer away()
	if err := i.close(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		d.o.Logger.Warn("closing the node to open it again", "error", err)
	}
	clientL, err := d.rebind("listen.client", d.addrs.clientListen)
	if err != nil {
		return fmt.Errorf("open the node again: %w", err)
	}
	next, err := d.open(clientL)
	if err != nil {
		return errors.Join(fmt.Errorf("open the node again: %w", err), clientL.Close())
	}
	d.mu.Lock()
	d.mu.current = next
	d.mu.Unlock()
	return nil
}

// rebind listens on a port that was let go a moment ago.
func (d *Daemon) rebind(key, addr string) (net.Listener, error) {
	for deadline := time.Now().Add(rebindLimit); ; {
		l, err := listen(key, addr)
		if err == nil || !inUse(err) || time.Now().After(deadline) {
			return l, err
		}
		select {
		case <-time.After(rebindPause):
		case <-d.watchStop:
			return nil, err
		}
	}
}

// addrs are the node's addresses, the same for all openings: port 0 keeps the port that it got first.
type addrs struct {
	client, http           string // as others dial them
	clientListen           string // as bound
	raftListen, gossipBind string // "": not bound yet
}

func newAddrs(c *config.Config, client, http net.Addr) addrs {
	return addrs{client: reachable(c, client), http: reachable(c, http), clientListen: client.String()}
}

// bound notes the ports that the node got.
func (a *addrs) bound(n *cluster.Node) {
	a.raftListen, a.gossipBind = n.RaftAddr(), n.GossipAddr()
}

// rebind puts the ports of before into a node's options.
func (a *addrs) rebind(o *cluster.Options) {
	o.RaftListen = samePort(o.RaftListen, a.raftListen)
	o.GossipListen = samePort(o.GossipListen, a.gossipBind)
}

// samePort is the listen address with the port of an earlier run, whose address is "" if there was none.
func samePort(listen, before string) string {
	host, _, err := net.SplitHostPort(listen)
	_, port, berr := net.SplitHostPort(before)
	if err != nil || berr != nil {
		return listen
	}
	return net.JoinHostPort(host, port)
}
