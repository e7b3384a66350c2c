package cluster

import (
	"errors"
	"math"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/tipstore"
)

// maxRestarts bounds how often one Read follows a tip that moves away under a position that may still float.
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
type Reader struct {
	stream  *Stream
	matcher *topic.Matcher
	cursor  *tipstore.Cursor
	watch   *tipstore.Watch // nil: no Wake was given

	head uint64 // newest seq at opening. Constant
	next uint64 // the seq the cursor was last placed at: nothing before it may come

	// floating: the start is "the oldest that is kept" or a time, and nothing has been looked at: if the tip drops the place
	// meanwhile, the start moves up with it. Once false it stays false.
	floating bool
	// notBefore is a start time that no message had reached when last looked at; 0: none. While it is set, floating is true.
	notBefore int64
}

// OpenReader places a reader. The head is taken before the place, so a message that comes in between counts as new, never as
// missed. The error is a *tipstore.GoneError if a StartSeq is older than what is kept.
func (s *Stream) OpenReader(o ReaderOptions) (*Reader, error) {
	first, head := s.tip.Bounds()
	r := &Reader{stream: s, matcher: topic.NewMatcher(s.table, o.Filters), head: head}
	if err := r.place(o, first); err != nil {
		return nil, err
	}
	r.cursor = s.tip.NewCursor(r.matcher, r.next)
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
		r.placeAtTime(int64(min(o.Value, math.MaxInt64)))
	case o.Start == wire.StartAgo:
		newest := r.stream.machine.LastMessageTime()
		r.placeAtTime(newest - int64(min(o.Value, uint64(max(newest, 0)))))
	default: // StartFirst, and StartSeq 0
		r.next, r.floating = first, true
	}
	return nil
}

// placeAtTime finds the first message that is not before t. If there is none yet, everything visible is passed over and t stays
// wanted: messages that are still before it may come.
func (r *Reader) placeAtTime(t int64) {
	first, last := r.stream.tip.Bounds()
	seq := r.stream.tip.SeqAtTime(t)
	r.floating, r.notBefore = true, 0
	if seq > last {
		r.notBefore = t
		seq = last + 1
	}
	r.next = max(seq, first)
}

// Head is the newest seq at opening, 0 if the stream was empty.
func (r *Reader) Head() uint64 { return r.head }

// Next is the first seq that can come, as the place was last determined: at opening the start's.
func (r *Reader) Next() uint64 { return r.next }

// Position is the seq up to which all matches were returned: resuming after it misses nothing and repeats nothing. It may be
// beyond the stream's end if the start was.
func (r *Reader) Position() uint64 { return max(r.next-1, r.cursor.Position()) }

// Read fills v with the next matches, as tipstore.Cursor.Read: the caller releases v before it reads again or closes. The error
// is a *tipstore.GoneError when the reader was so slow that its place has left the tip.
func (r *Reader) Read(v *tipstore.View, l tipstore.Limit) error {
	if r.notBefore != 0 {
		r.placeAtTime(r.notBefore)
		if r.notBefore != 0 {
			v.Release()
			v.Count, v.Bytes, v.First, v.Last, v.Scanned = 0, 0, 0, 0, r.next-1
			return nil
		}
		r.replace(r.next)
	}
	err := r.cursor.Read(v, l)
	for i := 0; err != nil && r.floating && i < maxRestarts; i++ {
		var gone *tipstore.GoneError
		if !errors.As(err, &gone) {
			break
		}
		r.replace(gone.Oldest)
		err = r.cursor.Read(v, l)
	}
	if err == nil {
		r.floating = false
	}
	return err
}

// replace puts the cursor at next.
func (r *Reader) replace(next uint64) {
	r.cursor.Close()
	r.next = next
	r.cursor = r.stream.tip.NewCursor(r.matcher, next)
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
	r.cursor.Close()
	r.stream.readers.Add(-1)
}
