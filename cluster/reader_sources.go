package cluster

import (
	"errors"
	"time"

	"github.com/cantus-bus/cantus/internal/bugs"
	"github.com/cantus-bus/cantus/subtree"
	"github.com/cantus-bus/cantus/tipstore"
)

const (
	// tipMargin is which part of the tip, from its oldest end, a reader that comes from history leaves between itself and that end
	// before it changes over, so that it does not fall off again at once.
	tipMargin = 8
	// behindMin and behindMax bound how long a read waits when history is ahead of a log that is being replayed, doubling.
	behindMin = 10 * time.Millisecond
	behindMax = 100 * time.Millisecond
)

// seek puts the reader before seq next.
func (r *Reader) seek(next uint64) {
	r.position = max(next, 1) - 1
	if first, _ := r.stream.tip.Bounds(); next < first && r.historyHas(next) {
		r.toHistory()
		return
	}
	r.toTip()
}

// historyHas tells whether history goes on at seq.
func (r *Reader) historyHas(seq uint64) bool {
	if r.stream.history == nil {
		return false
	}
	first, last := r.stream.history.store.Bounds()
	return first <= seq && seq <= last
}

func (r *Reader) letGo() {
	if r.tip != nil {
		r.tip.Close()
	}
	if r.past != nil {
		r.past.Close()
	}
	r.tip, r.past = nil, nil
}

func (r *Reader) toTip() {
	r.letGo()
	r.tip = r.stream.tip.NewCursor(r.matcher, r.position+1)
}

func (r *Reader) toHistory() {
	r.letGo()
	r.past = r.stream.history.store.NewCursor(r.matcher, r.position+1)
}

// readSomewhere reads from where the next record is: history until the tip is near, then the tip; and from history again when the
// tip has moved away. The tip drops nothing that history does not have, so there is no gap between them. What is no longer retained is
// gone at once, though it may still be here.
func (r *Reader) readSomewhere(v *tipstore.View, l tipstore.Limit) error {
	if oldest := r.stream.machine.FirstSeq(); r.position+1 < oldest {
		v.Release()
		return &tipstore.GoneError{Wanted: r.position + 1, Oldest: oldest}
	}
	if r.past != nil && r.tipIsNear() {
		r.position += bugs.Fence
		r.toTip()
	}
	if r.past != nil {
		return r.readHistory(v, l)
	}
	err := r.tip.Read(v, l)
	if err == nil {
		r.position = max(r.position, r.tip.Position())
		r.sources.Tip += uint64(v.Count)
		if h := r.stream.history; h != nil {
			h.tipMessages.Add(uint64(v.Count))
		}
		return nil
	}
	if r.historyHas(r.position + 1) {
		r.toHistory()
		return r.readHistory(v, l)
	}
	return r.gone(err)
}

// tipIsNear tells whether the reader should go on in the tip.
func (r *Reader) tipIsNear() bool {
	next := r.position + 1
	first, last := r.stream.tip.Bounds()
	return next >= first+(last+1-first)/tipMargin || !r.historyHas(next)
}

// readHistory reads what history has and the stream shows.
func (r *Reader) readHistory(v *tipstore.View, l tipstore.Limit) error {
	_, last := r.stream.tip.Bounds()
	if l.UpTo != 0 {
		last = min(last, l.UpTo)
	}
	v.Release()
	if last <= r.position {
		v.Borrow(tipstore.Records{Scanned: r.position})
		return nil
	}
	h := new(subtree.View)
	err := r.past.Read(h, subtree.Limit{Bytes: l.Bytes, Count: l.Count, UpTo: last, Scan: l.Scan})
	if errors.Is(err, subtree.ErrTableBehind) {
		// The file reaches beyond what has been replayed. The replay goes on, and sooner or later passes its end.
		r.awaitReplay()
		v.Borrow(tipstore.Records{Scanned: r.position})
		return nil
	}
	if err != nil {
		return r.gone(err)
	}
	r.waited = 0
	r.position = max(r.position, r.past.Position())
	r.sources.History += uint64(h.Count)
	r.stream.history.pastMessages.Add(uint64(h.Count))
	v.Borrow(tipstore.Records{
		Parts: h.Parts, Count: h.Count, Bytes: h.Bytes, First: h.First, Last: h.Last, Scanned: r.position, Held: h,
	})
	return nil
}

// gone makes one error of "not in the tip" and "not in history".
func (r *Reader) gone(err error) error {
	var past *subtree.GoneError
	if errors.As(err, &past) {
		return &tipstore.GoneError{Wanted: past.Wanted, Oldest: max(past.Oldest, r.stream.machine.FirstSeq())}
	}
	var tip *tipstore.GoneError
	if first, _ := r.stream.Bounds(); errors.As(err, &tip) && first > tip.Wanted {
		return &tipstore.GoneError{Wanted: tip.Wanted, Oldest: first}
	}
	return err
}
