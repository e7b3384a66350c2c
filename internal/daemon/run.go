package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// shutdownWait bounds how long a node that was told to stop waits for its clients.
const shutdownWait = 10 * time.Second

// Run runs a node until ctx ends, which is no error, or it fails. ready is called once, when the node is ready for the first time.
func Run(ctx context.Context, o Options, ready func(*Daemon)) error {
	d, err := Start(o)
	if err != nil {
		return err
	}
	err = d.untilStopped(ctx, ready)
	ctx, cancel := context.WithTimeout(context.Background(), shutdownWait)
	defer cancel()
	return errors.Join(err, d.Shutdown(ctx))
}

// untilStopped says when the node is ready, and returns when it is to stop: nil at the end of ctx, the reason on a failure.
func (d *Daemon) untilStopped(ctx context.Context, ready func(*Daemon)) error {
	switch err := d.WaitReady(ctx); {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	if ready != nil {
		ready(d)
	}
	select {
	case <-ctx.Done():
		return nil
	case <-d.Failed():
		return fmt.Errorf("node stopped: %w", d.Err())
	}
}
