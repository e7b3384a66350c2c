package transport

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/topic"
)

// subscription is a position in the stream that one client reads from.
//
// It sleeps outside the ready queue while there is nothing to send or no credit. What wakes it: the stream's writer after
// Arm, credit, unsubscribe, and the progress tick.
type subscription struct {
	conn *conn
	id   uint32

	credit    atomic.Int64 // bytes of records the client is ready for; one record may overdraw it
	cancelled atomic.Bool  // the client wants no more
	queued    atomic.Bool  // in the ready queue
	opened    atomic.Bool  // the fields below are set and the pump's
	// calm is 1 + a seq up to which nothing has matched since the subscription became quiet, set by the first wake after Arm;
	// 0: not woken yet.
	calm atomic.Uint64
	// stopWait ends the wait for MinSeq; nil if there is none. Set before the subscription is in subs.byID.
	stopWait context.CancelFunc

	// The opener's, then, once opened, the pump's.

	reader *cluster.Reader
	head   uint64 // newest seq at opening: caught-up is said after the last match that is not beyond it
	prev   uint64 // last match that the client has, 0: none
	past   uint64 // messages that reader got from history when last asked
	// mark is what the client knows to be safe to resume after. Invariant: prev <= mark <= reader.Position() once
	// something was delivered.
	mark     uint64
	told     time.Time // when mark was last moved
	caughtUp bool      // CAUGHT_UP was sent
	filters  topic.Filters
	quiet    bool // see calm
	starved  bool // had no credit when last served
	ended    bool // ENDED was sent; the reader is closed or about to be
	fetch    fetch
}

// wake puts the subscription into its connection's ready queue. The stream's writer calls it: it must not block.
func (s *subscription) wake() {
	if s.conn.ready.push(s) {
		s.conn.signal()
	}
}
