package transport

import (
	"errors"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/tipstore"
)

// A subscription that sleeps because nothing matches does not move, and a small or fast ring can pass its position before
// the next progress tick. Nothing is lost by that, and the client must not be told that it is: only what matches counts. Nor is
// there any need to read history for it, where it would wait for the disk and for those that have much to read.
//
// A subscription is quiet when it went to sleep armed and with its position at a fence read after Arm. Whatever matches
// after that fires the watch, and the writer fires it before it applies the next entry. So
//   - when the ring has dropped seqs below T and the watch has not fired, nothing below T has matched: the tail moves only
//     when a later entry is appended;
//   - when the watch has fired, nothing has matched up to the last seq of the entry before the one that fired it.
//
// Either way there is a seq up to which nothing was missed, and if the tip still holds what follows, reading goes on there.

// minQuietRing is the ring below which an entry could leave it before its watches fire.
const minQuietRing = 4 * record.MaxBatchBytes

// matched is the watch's call, from the stream's writer within the apply of the matching entry: the machine's last seq is
// still that of the entry before.
func (s *subscription) matched() {
	s.calm.CompareAndSwap(0, s.conn.stream.Machine().LastSeq()+1)
	s.wake()
}

// arm asks for a wake unless one is still due, and returns what is known to be calm.
func (s *subscription) arm() (calm uint64) {
	calm = s.calm.Load()
	if !s.quiet || calm != 0 {
		s.calm.Store(0)
		s.reader.Arm()
	}
	return calm
}

// skip moves a quiet subscription's reader over what the stream has dropped without a match in it. False: err stands.
func (p *pump) skip(s *subscription, calm uint64, err error) bool {
	var gone *tipstore.GoneError
	return errors.As(err, &gone) && p.skipTo(s, calm, gone.Oldest)
}

// skipHistory moves a quiet subscription's reader over what has left the tip without a match in it, so that it need not look for one
// in history. False: there may be one.
func (p *pump) skipHistory(s *subscription, calm uint64) bool {
	oldest, _ := p.c.stream.Tip().Bounds()
	return p.skipTo(s, calm, oldest) && !s.reader.Slow()
}

func (p *pump) skipTo(s *subscription, calm, oldest uint64) bool {
	if !s.quiet || !p.c.quietRing {
		return false
	}
	if calm == 0 {
		calm = s.calm.Load() // after the tail was seen
	}
	next := oldest
	if calm != 0 {
		next = calm
	}
	if next < oldest {
		return false
	}
	o := cluster.ReaderOptions{Filters: s.filters, Start: wire.StartSeq, Value: next, Wake: s.matched}
	r, err := p.c.stream.OpenReader(o)
	if err != nil {
		return false
	}
	s.reader.Close()
	s.reader, s.past = r, 0
	s.quiet = false // of the new reader nothing is known yet
	s.calm.Store(0)
	r.Arm()
	return true
}
