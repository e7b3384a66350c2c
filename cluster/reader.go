package cluster

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/subtree"
	"github.com/cantus-bus/cantus/tipstore"
)

// maxRestarts bounds how often one Read follows a stream whose oldest messages go under a position that may still float.
const maxRestarts = 16

// ReaderOptions say what to read and from where.
type ReaderOptions struct {
	Filters topic.Filters
	Start   wire.StartKind
	Value   uint64 // of Start; see wire.StartKind
	Wake    func() // called when something may have come after Arm; must not block. nil: the reader polls
}

// Reader is one subscription's position in the stream. It belongs to one goroutine; Wake comes from the goroutine that applies.
//
// Its promise: Read returns every match from Next on, once, in seq order, and Position never passes a match that was not
// returned. So all matches up to Head have been returned as soon as Position() >= Head(), and that moment is "caught up".
// Where the records come from, history or the tip, shows only in Sources.
type Reader struct {
	stream  *Stream
	matcher *topic.Matcher
	watch   *tipstore.Watch // nil: no Wake was given

	// Invariant: exactly one of tip and past is not nil, and its first record is the first match after position.
	tip      *tipstore.Cursor
	past     *subtree.Cursor
	position uint64 // every match from next to it was returned

	head uint64 // newest seq at opening. Constant
	next uint64 // where the reader was last placed: nothing before it may come

	// floating: the start is "the oldest that is kept" or a time, and nothing has been looked at: if the oldest is dropped
	// meanwhile, the start moves up with it. Once false it stays false.
	floating bool
	// notBefore is a start time that no message had reached when last looked at; 0: none. While it is set, floating is true.
	notBefore int64
	behind    bool // notBefore could not be placed yet: the log is being replayed. Until it can, next and position are a lower bound

	waited time.Duration // for the replay, when last; 0: since then history was read

	sources Sources
}

// Sources count the messages that a Reader got from history and from the tip.
type Sources struct{ History, Tip uint64 }

// OpenReader places a reader. The head is taken before the place, so a message that comes in between counts as new, never as
// missed. The error is a *tipstore.GoneError if a StartSeq is older than what is kept.
func (s *Stream) OpenReader(o ReaderOptions) (*Reader, error) {
	first, head := s.Bounds()
	r := &Reader{stream: s, matcher: topic.NewMatcher(s.table, o.Filters), head: head}
	if err := r.place(o, first); err != nil {
		return nil, err
	}
	r.seek(r.next)
	if o.Wake != nil {
		r.watch = s.tip.NewWatch(o.Filters, o.Wake)
	}
	s.readers.Add(1)
	return r, nil
}

// place turns a start into next, floating and notBefore.
func (r *Reader) place(o ReaderOptions, first uint64) error {
	switch {
	case o.Start == wire.StartNow:
		r.next = r.head + 1
	case o.Start == wire.StartSeq && o.Value >= first:
		r.next = o.Value
	case o.Start == wire.StartSeq && o.Value > 0:
		return &tipstore.GoneError{Wanted: o.Value, Oldest: first}
	case o.Start == wire.StartTime:
		return r.placeAtTime(int64(min(o.Value, math.MaxInt64)))
	case o.Start == wire.StartAgo:
		newest := r.stream.machine.LastMessageTime()
		return r.placeAtTime(newest - int64(min(o.Value, uint64(max(newest, 0)))))
	default: // StartFirst, and StartSeq 0
		r.next, r.floating = first, true
	}
	return nil
}

// placeAtTime finds the first message that is not before t and is retained. If there is none yet, everything visible is passed over and t stays
// wanted: messages that are still before it may come.
func (r *Reader) placeAtTime(t int64) error {
	err := r.findTime(t)
	r.next = max(r.next, r.stream.machine.FirstSeq())
	return err
}

func (r *Reader) findTime(t int64) error {
	first, last := r.stream.tip.Bounds()
	seq := r.stream.tip.SeqAtTime(t)
	r.floating, r.notBefore, r.behind = true, 0, false
	if seq > last {
		r.notBefore = t
		seq = last + 1
	}
	r.next = max(seq, first)
	if r.next > first || r.stream.history == nil {
		return nil
	}
	// All of the tip is at or after t: what is before the tip may be, too.
	past, err := r.stream.history.store.SeqAtTime(t)
	if errors.Is(err, subtree.ErrTableBehind) {
		// History is ahead of a log that is being replayed, and the answer lies in what was replayed only in part.
		r.next, _ = r.stream.Bounds()
		r.notBefore, r.behind = t, true
		return nil
	}
	if err != nil {
		return fmt.Errorf("cluster: open reader at a time: %w", err)
	}
	if past < r.next {
		r.next, r.notBefore = past, 0
	}
	return nil
}

// Head is the newest seq at opening, 0 if the stream was empty.
func (r *Reader) Head() uint64 { return r.head }

// Next is the first seq that can come, as the place was last determined: at opening the start's.
func (r *Reader) Next() uint64 { return r.next }

// Position is the seq up to which all matches were returned: resuming after it misses nothing and repeats nothing. It may be
// beyond the stream's end if the start was.
func (r *Reader) Position() uint64 { return r.position }

// Sources tell where the messages came from so far.
func (r *Reader) Sources() Sources { return r.sources }

// Read fills v with the next matches, as tipstore.Cursor.Read: the caller releases v before it reads again or closes. The error
// is a *tipstore.GoneError when what comes next is neither in the tip nor in history, or one of package subtree's when history
// cannot be read; the position is as before then.
func (r *Reader) Read(v *tipstore.View, l tipstore.Limit) error {
	if r.notBefore != 0 {
		if err := r.placeAtTime(r.notBefore); err != nil {
			return err
		}
		r.seek(r.next)
		if r.notBefore != 0 {
			if r.behind {
				r.awaitReplay()
			}
			v.Borrow(tipstore.Records{Scanned: r.position})
			return nil
		}
	}
	err := r.readSomewhere(v, l)
	for i := 0; err != nil && r.floating && i < maxRestarts; i++ {
		var gone *tipstore.GoneError
		if !errors.As(err, &gone) {
			break
		}
		r.next = gone.Oldest
		r.seek(r.next)
		err = r.readSomewhere(v, l)
	}
	if err == nil {
		r.floating = false
	}
	return err
}

// awaitReplay waits, longer each time in a row: without a majority the replay does not go on.
func (r *Reader) awaitReplay() {
	r.waited = min(max(2*r.waited, behindMin), behindMax)
	time.Sleep(r.waited)
}

// Slow tells whether the next Read may wait for the disk: it goes on in history, or looks for its place there. A Read that is
// not slow reads memory only, but for one that the tip passes in the moment in between.
func (r *Reader) Slow() bool {
	switch first, _ := r.stream.tip.Bounds(); {
	case r.behind:
		return true
	case r.past != nil:
		return !r.tipIsNear()
	default:
		return r.position+1 < first && r.historyHas(r.position+1)
	}
}

// Rest lets go of decoded history, at the price of reading it again: for a reader whose client takes nothing more for a while.
func (r *Reader) Rest() {
	if r.past != nil {
		r.past.Rest()
	}
}

// Arm asks for one Wake. Arm, then Read until there is nothing more, then sleep until Wake: nothing that comes in between is
// slept through. Without a Wake it does nothing.
func (r *Reader) Arm() {
	if r.watch != nil {
		r.watch.Arm()
	}
}

// Close gives back what the reader holds. Its last View must have been released. A Wake that had begun may still be running when
// Close returns; none begins after it.
func (r *Reader) Close() {
	if r.watch != nil {
		r.watch.Close()
	}
	r.letGo()
	r.stream.readers.Add(-1)
}
