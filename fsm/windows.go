package fsm

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Where a window is sealed until configured otherwise.
const (
	DefaultWindowBytes = uint64(64 << 20)
	DefaultWindowCount = uint64(1 << 20)
	DefaultWindowAge   = int64(10 * time.Minute)
)

// Window is a run of the stream that goes to disk as one: [FirstSeq, LastSeq].
type Window struct {
	Number              uint64 // from 1, dense
	FirstSeq, LastSeq   uint64 // never empty; the next window begins at LastSeq+1
	Bytes               uint64 // of the stored records, padding included
	FirstTime, LastTime int64  // of its messages, unix nanoseconds
}

// windows cuts the stream by what the log says: bytes, count, and time of entries. All of it but visible is state.
//
// Invariants: sealed is dense in Number and in seqs; it is not empty once a window was sealed; open begins where the last sealed one
// ends, and open.FirstSeq is 0 when no message came since.
type windows struct {
	sealed []Window      // the retained ones: grows at its end, shrinks from its beginning. 48 bytes each: a year of ten-minute windows is 2.5 MB
	open   Window        // Number, LastSeq and LastTime are filled in when it is sealed
	sum    xxhash.Digest // over every window that was ever sealed

	// visible is sealed for other goroutines: a header over the same array, whose elements never change.
	visible  atomic.Pointer[[]Window]
	onSeal   func(Window)
	onRetain func(through Window)
}

func (w *windows) init(onSeal, onRetain func(Window)) {
	w.sum.Reset()
	w.visible.Store(&[]Window{})
	w.onSeal, w.onRetain = onSeal, onRetain
}

// grow notes what an entry stored: bytes of records up to seq last, the first of them first, at the entry's time.
func (w *windows) grow(first, last, bytes uint64, now int64) {
	if w.open.FirstSeq == 0 {
		w.open.FirstSeq, w.open.FirstTime = first, now
	}
	w.open.LastSeq, w.open.LastTime = last, now
	w.open.Bytes += bytes
}

// due says whether the open window ends with the entry in hand.
func (w *windows) due(c *StreamConfig, now int64) bool {
	if w.open.FirstSeq == 0 {
		return false
	}
	count := w.open.LastSeq - w.open.FirstSeq + 1
	return w.open.Bytes >= c.WindowBytes || count >= c.WindowCount || now-w.open.FirstTime >= c.WindowAge
}

// seal ends the open window and makes it visible.
func (w *windows) seal() {
	w.open.Number = w.newest() + 1
	sealed := w.open
	w.sealed = append(w.sealed, sealed)
	var buf [windowSize]byte
	_, _ = w.sum.Write(sealed.appendTo(buf[:0])) // never fails
	w.open = Window{}
	w.show()
	if w.onSeal != nil {
		w.onSeal(sealed)
	}
}

// show makes sealed visible to other goroutines.
func (w *windows) show() {
	visible := w.sealed
	w.visible.Store(&visible)
}

// oldest is the number of the oldest window that is retained, or the first number if none was sealed.
func (w *windows) oldest() uint64 { return oldest(w.sealed) }

func oldest(sealed []Window) uint64 {
	if len(sealed) == 0 {
		return 1
	}
	return sealed[0].Number
}

// newest is the number of the last window that was sealed, 0 if there was none.
func (w *windows) newest() uint64 {
	if len(w.sealed) == 0 {
		return 0
	}
	return w.sealed[len(w.sealed)-1].Number
}

// numbered finds a window in a list of them by its number.
func numbered(list []Window, number uint64) (Window, bool) {
	if len(list) == 0 || number < list[0].Number || number > list[len(list)-1].Number {
		return Window{}, false
	}
	return list[number-list[0].Number], true
}

const windowSize = 6 * 8

// appendTo writes the window for the digest.
func (w *Window) appendTo(b []byte) []byte {
	for _, n := range [...]uint64{w.Number, w.FirstSeq, w.LastSeq, w.Bytes, uint64(w.FirstTime), uint64(w.LastTime)} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

// Windows are the sealed windows that are retained, oldest first; Window.Number says which. The slice is shared and must not be
// changed. Any goroutine.
func (m *Machine) Windows() []Window { return *m.windows.visible.Load() }

// Window is the sealed window of this number; ok is false when it is not sealed yet or no longer retained. Any goroutine.
func (m *Machine) Window(number uint64) (w Window, ok bool) { return numbered(m.Windows(), number) }

// FirstSeq is the oldest seq that is retained, 1 in the beginning. It is never beyond the first seq of the newest sealed window. Any
// goroutine.
func (m *Machine) FirstSeq() uint64 { return firstSeq(m.Windows()) }

func firstSeq(sealed []Window) uint64 {
	if len(sealed) == 0 {
		return 1
	}
	return sealed[0].FirstSeq
}

// sealIfDue ends the open window when the entry in hand says so.
func (m *Machine) sealIfDue() {
	if m.windows.due(m.config.Load(), m.now) {
		m.windows.seal()
	}
}
