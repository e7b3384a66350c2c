package fsm

import (
	"errors"
	"io"
)

// State is all that outcomes depend on, as it was at one place of the log, detached from the machine.
type State struct {
	index, seq uint64
	time       int64
	windows    []Window // sealed and retained
	digest     Digest
}

// Capture copies the state. Apply's goroutine only; what is returned is any goroutine's.
func (m *Machine) Capture() *State {
	return &State{index: m.index, seq: m.seq, time: m.time, windows: m.windows.sealed, digest: m.Digest()}
}

// Index is that of the last applied entry.
func (s *State) Index() uint64 { return s.index }

// Seq is that of the newest message, 0 if there is none.
func (s *State) Seq() uint64 { return s.seq }

// Time is that of the last applied entry, unix nanoseconds.
func (s *State) Time() int64 { return s.time }

// Sealed is the last sealed window; ok is false if there was none. The messages behind it are the tail.
func (s *State) Sealed() (w Window, ok bool) {
	if len(s.windows) == 0 {
		return Window{}, false
	}
	return s.windows[len(s.windows)-1], true
}

// First is the oldest seq retained, 1 in the beginning.
func (s *State) First() uint64 { return firstSeq(s.windows) }

// Digest is the machine's at that place.
func (s *State) Digest() Digest { return s.digest }

var errNoEncoding = errors.New("fsm: the state has no encoding")

// WriteTo writes the state. Any goroutine.
func (s *State) WriteTo(io.Writer) (int64, error) { return 0, errNoEncoding }

// Restore fills a new machine from what WriteTo wrote.
func (m *Machine) Restore(io.Reader) error { return errNoEncoding }
