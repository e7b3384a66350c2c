package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/config"
)

const (
	// shutdownWait bounds how long a node that was told to stop waits for its clients, and reopenWait how long one that only opens
	// its data again does: its clients go on at other nodes, and come back.
	shutdownWait = 10 * time.Second
	reopenWait   = time.Second
)

// Run runs a node until ctx ends, which is no error, or it fails. A node that has fetched a snapshot of the others is closed and opened
// again on it, on the same ports. ready is called once, when the node is ready for the first time.
func Run(ctx context.Context, o Options, ready func(*Daemon)) error {
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	once := func(d *Daemon) {
		if ready != nil {
			ready(d)
			ready = nil
		}
	}
	for {
		d, err := Start(o)
		if err != nil {
			return err
		}
		err = d.untilStopped(ctx, once)
		if ctx.Err() != nil || !errors.Is(err, cluster.ErrReopen) {
			return errors.Join(err, d.shutdownWithin(shutdownWait))
		}
		o.Logger.Info("opening the data folder again, on a snapshot that was fetched from the other nodes")
		o.Config = d.again(o.Config)
		if err := d.shutdownWithin(reopenWait); err != nil {
			// Clients that had not left in time were cut off. If the folder is not free, opening it will say so.
			o.Logger.Warn("closing the node to open it again", "error", err)
		}
	}
}

// untilStopped says when the node is ready, and returns when it is to stop: nil at the end of ctx, the reason on a failure.
func (d *Daemon) untilStopped(ctx context.Context, ready func(*Daemon)) error {
	switch err := d.WaitReady(ctx); {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	ready(d)
	select {
	case <-ctx.Done():
		return nil
	case <-d.Failed():
		return fmt.Errorf("node stopped: %w", d.Err())
	}
}

func (d *Daemon) shutdownWithin(wait time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	return d.Shutdown(ctx)
}

// again is the configuration with the ports that were taken in place of those that were free to choose.
func (d *Daemon) again(l *config.Loaded) *config.Loaded {
	again := *l
	listen := &again.Config.Listen
	for addr, taken := range map[*string]string{
		&listen.Client: d.clientAddr, &listen.HTTP: d.httpAddr, &listen.Raft: d.node.RaftAddr(), &listen.Gossip: d.node.GossipAddr(),
	} {
		*addr = withPort(*addr, taken)
	}
	return &again
}

// withPort gives addr the port of another address.
func withPort(addr, other string) string {
	host, _, err := net.SplitHostPort(addr)
	_, port, otherErr := net.SplitHostPort(other)
	if err != nil || otherErr != nil {
		return addr
	}
	return net.JoinHostPort(host, port)
}
