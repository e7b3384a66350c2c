package load

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cantus-bus/cantus/client"
)

// ReadOptions of Read.
type ReadOptions struct {
	Connect   client.Options
	Subscribe client.SubscribeOptions
	CaughtUp  bool                        // end when everything was read that was there at the start
	Count     uint64                      // end after so many messages; 0: do not
	Message   func(*client.Message) error // called for each message, which is valid until it returns; may be nil; its error ends the reading
}

// ReadResult says what a reader got.
type ReadResult struct {
	Messages    uint64  `json:"messages"`
	Bytes       uint64  `json:"bytes"` // payloads
	FirstSeq    uint64  `json:"first_seq"`
	LastSeq     uint64  `json:"last_seq"`
	ElapsedMS   float64 `json:"elapsed_ms"`   // from the call to the end
	TTFBMS      float64 `json:"ttfb_ms"`      // from the call to the first message, 0 if there was none
	FromHistory uint64  `json:"from_history"` // messages read from disk
	FromTip     uint64  `json:"from_tip"`     // messages read from memory before the reader had caught up
	FromLive    uint64  `json:"from_live"`    // messages read from memory afterwards
	PerSecond   float64 `json:"per_s"`
	Resumed     uint64  `json:"resumed"`  // lost connections that were made good
	Position    uint64  `json:"position"` // safe to resume after
}

// reader is the state of one Read.
type reader struct {
	o      ReadOptions
	began  time.Time
	result ReadResult
	caught bool
}

// Read subscribes and reads until it has what was asked for, the cluster refuses, or ctx ends. The end of ctx is an error
// only if an end was asked for and not reached; the result is true in any case.
func Read(ctx context.Context, o ReadOptions) (ReadResult, error) {
	r := &reader{o: o, began: time.Now()}
	c, err := client.Connect(ctx, o.Connect)
	if err != nil {
		return r.result, err
	}
	defer c.Close()
	if err := knownNode(ctx, c, o.Subscribe.Node); err != nil {
		return r.result, err
	}
	sub, err := c.Subscribe(ctx, o.Subscribe)
	if err != nil {
		return r.result, err
	}
	defer sub.Close()
	err = r.run(ctx, sub)
	elapsed := time.Since(r.began)
	r.result.ElapsedMS = float64(elapsed) / float64(time.Millisecond)
	r.result.PerSecond = float64(r.result.Messages) / elapsed.Seconds()
	r.result.Resumed = sub.Stats().Resumed
	r.result.Position = sub.Position()
	if errors.Is(err, context.Canceled) && !o.CaughtUp && o.Count == 0 {
		err = nil
	}
	return r.result, err
}

// topologyWait bounds how long a node that is connected may take to tell who is in the cluster.
const topologyWait = 5 * time.Second

// ErrNoSuchNode: the node that was asked for is not of the cluster.
var ErrNoSuchNode = errors.New("no such node in the cluster")

// knownNode refuses a node, by id or client address, that the cluster does not have: the client would read from another one and the
// wish would be lost in silence. "" is no wish.
func knownNode(ctx context.Context, c *client.Client, node string) error {
	if node == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, topologyWait)
	defer cancel()
	for {
		changed := c.TopologyChanged()
		t := c.Topology()
		var names []string
		for _, n := range t.Nodes {
			if n.ID == node || n.Addr == node {
				return nil
			}
			names = append(names, fmt.Sprintf("%s (%s)", n.ID, n.Addr))
		}
		if len(names) > 0 {
			return fmt.Errorf("read from node %q: %w: it has %s", node, ErrNoSuchNode, strings.Join(names, ", "))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("read from node %q: the cluster does not tell its nodes: %w", node, ctx.Err())
		}
	}
}

func (r *reader) run(ctx context.Context, sub *client.Subscription) error {
	for {
		b, err := sub.NextBatch(ctx)
		if err != nil {
			return err
		}
		if b.CaughtUp() {
			r.caught = true
			if r.o.CaughtUp {
				return nil
			}
			continue
		}
		for m := range b.All() {
			if err := r.take(&m); err != nil {
				return err
			}
			if r.result.Messages == r.o.Count {
				return nil
			}
		}
	}
}

func (r *reader) take(m *client.Message) error {
	s := &r.result
	if s.Messages == 0 {
		s.FirstSeq = m.Seq
		s.TTFBMS = float64(time.Since(r.began)) / float64(time.Millisecond)
	}
	s.Messages++
	s.Bytes += uint64(len(m.Payload))
	s.LastSeq = m.Seq
	switch {
	case m.History:
		s.FromHistory++
	case r.caught:
		s.FromLive++
	default:
		s.FromTip++
	}
	if r.o.Message == nil {
		return nil
	}
	return r.o.Message(m)
}
