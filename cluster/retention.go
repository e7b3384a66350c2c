package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
)

// retainShare: a merge makes no generation of more than one in so many parts of what is to be retained, since a generation is dropped
// as a whole: so what is kept beyond the limits stays small beside them.
const retainShare = 8

// retainable is the window up to which everything may be dropped; 0: nothing. It looks at what the log says only, the time now too: that
// of the log's last entry. So a stream into which nothing comes keeps what it has.
//
// A window may go when any limit says so: by age if its newest message is older, by bytes and count if the sealed windows behind it
// still hold as much. The newest sealed window stays, and no generation is cut in two.
func retainable(windows []fsm.Window, gs []fsm.Generation, c fsm.StreamConfig, now int64) (through uint64) {
	if len(windows) < 2 {
		return 0
	}
	newest := windows[len(windows)-1]
	bytes := newest.Bytes // of the windows behind the one in hand
	for i := len(windows) - 2; i >= 0 && through == 0; i-- {
		w := windows[i]
		if now-w.LastTime > c.RetainAge || bytes >= c.RetainBytes || newest.LastSeq-w.LastSeq >= c.RetainCount {
			through = w.Number
		}
		bytes += w.Bytes
	}
	for _, g := range gs {
		if g.FirstWindow <= through && through < g.LastWindow {
			through = g.FirstWindow - 1
		}
	}
	if through < windows[0].Number {
		return 0
	}
	return through
}

// tooCoarse tells whether a generation of all of run would be too large a part of what is to be retained.
func tooCoarse(run []fsm.Generation, windows []fsm.Window, c fsm.StreamConfig) bool {
	first, last := run[0], run[len(run)-1]
	var from, to int64
	for _, w := range windows {
		switch w.Number {
		case first.FirstWindow:
			from = w.FirstTime
		case last.LastWindow:
			to = w.LastTime
		}
	}
	return to-from > c.RetainAge/retainShare || bytesOf(run, windows) > c.RetainBytes/retainShare || last.LastSeq-first.FirstSeq+1 > c.RetainCount/retainShare
}

// keepRetention is the leader's: it looks at each interval, and when a window was sealed, whether there is something to drop.
func (n *Node) keepRetention(ctx context.Context) {
	t := time.NewTicker(n.opts.RetainInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-n.stream.sealed:
		}
		if err := n.retain(ctx); err != nil && ctx.Err() == nil {
			n.log.Warn("cannot drop what is beyond retention: trying again", "error", err)
		}
	}
}

// retain puts into the log what is to be dropped, if there is anything.
func (n *Node) retain(ctx context.Context) error {
	m := n.stream.Machine()
	through := retainable(m.Windows(), m.Generations(), m.Config(), m.LastTime())
	if through == 0 {
		return nil
	}
	r, err := n.command(ctx, record.KindRetain, fsm.RetainBody(through))
	switch {
	case err != nil:
		return err
	case r.Code != fsm.OK:
		return &wire.Error{Code: wire.Code(r.Code), Message: fmt.Sprintf("dropping windows up to %d was refused: %v", through, r.Code)}
	}
	n.log.Info("dropped the oldest windows", "through_window", through, "first_seq", r.Detail)
	return nil
}
