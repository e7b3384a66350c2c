package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
)

// Source is a history that can be read any number of times, from its first event on.
type Source interface {
	Header() Header
	// Events yields the events after the header, End included. It stops after the first error. A history that was cut
	// short is not an error: it has no End.
	Events() iter.Seq2[Event, error]
}

// Memory is a history in memory.
type Memory struct {
	Head Header
	List []Event
}

// Header returns Head.
func (m *Memory) Header() Header { return m.Head }

// Events yields List.
func (m *Memory) Events() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for _, e := range m.List {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// File is a history on disk. It holds nothing open between calls.
type File struct {
	path   string
	header Header
}

// maxLineBytes bounds a line: the largest are verifications with a digest for each window.
const maxLineBytes = 16 << 20

// Open reads a file's header. ErrFormat if it is not a history that this version reads.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open history: %w", err)
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("open history %s: %w: no whole first line", path, ErrFormat)
	}
	e, err := Parse(line)
	if err != nil {
		return nil, fmt.Errorf("open history %s: %w", path, err)
	}
	h, ok := e.(*Header)
	if !ok || h.Format != FormatVersion {
		return nil, fmt.Errorf("open history %s: %w: want a header of format %d first", path, ErrFormat, FormatVersion)
	}
	return &File{path: path, header: *h}, nil
}

// Path is where the file is.
func (f *File) Path() string { return f.path }

// Header returns the file's header.
func (f *File) Header() Header { return f.header }

// Events reads the file from its start. Errors name the line.
func (f *File) Events() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		file, err := os.Open(f.path)
		if err != nil {
			yield(nil, fmt.Errorf("read history: %w", err))
			return
		}
		defer file.Close()
		scan(file, f.path, yield)
	}
}

func scan(r io.Reader, path string, yield func(Event, error) bool) {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 64<<10), maxLineBytes)
	s.Split(wholeLines)
	for n := 1; s.Scan(); n++ {
		if n == 1 {
			continue // the header, which Open has read
		}
		e, err := Parse(s.Bytes())
		if err != nil {
			err = fmt.Errorf("read history %s: line %d: %w", path, n, err)
		}
		if !yield(e, err) || err != nil {
			return
		}
	}
	if err := s.Err(); err != nil {
		yield(nil, fmt.Errorf("read history %s: %w", path, err))
	}
}

// wholeLines splits into lines and drops one that was cut short.
func wholeLines(data []byte, _ bool) (advance int, token []byte, err error) {
	i := bytes.IndexByte(data, '\n')
	if i < 0 {
		return 0, nil, nil
	}
	return i + 1, data[:i], nil
}

// ErrFormat means bytes that are not a history.
var ErrFormat = errors.New("not a history")

// kinds makes the event that a line of a kind is read into.
var kinds = map[Kind]func() Event{
	KindHeader:     func() Event { return new(Header) },
	KindPublish:    func() Event { return new(Publish) },
	KindDelivery:   func() Event { return new(Delivery) },
	KindProgress:   func() Event { return new(Progress) },
	KindCaughtUp:   func() Event { return new(CaughtUp) },
	KindReader:     func() Event { return new(ReaderOpened) },
	KindResumed:    func() Event { return new(ReaderResumed) },
	KindReaderEnd:  func() Event { return new(ReaderEnded) },
	KindRead:       func() Event { return new(Read) },
	KindFault:      func() Event { return new(Fault) },
	KindFaultEnd:   func() Event { return new(FaultEnd) },
	KindQuorum:     func() Event { return new(Quorum) },
	KindNode:       func() Event { return new(NodeChanged) },
	KindMembership: func() Event { return new(MembershipChanged) },
	KindVerify:     func() Event { return new(Verify) },
	KindProbe:      func() Event { return new(Probe) },
	KindPhase:      func() Event { return new(Phase) },
	KindNote:       func() Event { return new(Note) },
	KindEnd:        func() Event { return new(End) },
}

// Parse reads what Append wrote, with or without the line's end. It does not keep line. Any error wraps ErrFormat.
func Parse(line []byte) (Event, error) {
	const start = `{"k":"`
	rest, ok := bytes.CutPrefix(line, []byte(start))
	if !ok {
		return nil, fmt.Errorf("%w: a line does not begin with %s", ErrFormat, start)
	}
	kind, _, ok := bytes.Cut(rest, []byte{'"'})
	if !ok || kinds[Kind(kind)] == nil {
		return nil, fmt.Errorf("%w: unknown kind %.20q", ErrFormat, kind)
	}
	e := kinds[Kind(kind)]()
	if err := json.Unmarshal(line, e); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFormat, kind, err)
	}
	return e, nil
}
