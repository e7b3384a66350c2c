package cluster

import (
	"context"
	"math"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// withLimits is a configuration with the limits that these options name.
func (o *StreamOptions) withLimits(c fsm.StreamConfig) fsm.StreamConfig {
	if o.MaxTopics > 0 {
		c.MaxTopics = uint32(min(o.MaxTopics, topic.LimitMaxTopics))
	}
	if o.MaxProducers > 0 {
		c.MaxProducers = uint32(min(uint64(o.MaxProducers), math.MaxUint32))
	}
	return c
}

// proposeConfig puts this node's limits, and where it wants windows to end, into the log if others are in force there, while ctx
// lasts: what one node refuses all must refuse, at the same place of the log, and again when they replay it.
func (n *Node) proposeConfig(ctx context.Context) {
	for ctx.Err() == nil {
		now := n.stream.Machine().Config()
		next := n.opts.History.configure(n.opts.Stream.withLimits(now))
		if next == now {
			return
		}
		next.Version = now.Version + 1
		r, err := n.command(ctx, record.KindConfig, fsm.ConfigBody(next))
		switch {
		case err != nil:
			return
		case r.Code == fsm.OK:
			n.log.Info("changed the stream's configuration", "before", now, "now", next)
			return
		}
		pause.For(ctx, retryRefused)
	}
}
