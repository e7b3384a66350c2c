package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const writerBufferBytes = 256 << 10

// Writer appends events to a file. Its methods may be called by many goroutines. An error of the disk does not disturb the
// run: it is kept, later events are dropped, and Close returns it.
type Writer struct {
	began time.Time // with the monotonic reading that all events' times refer to
	ids   atomic.Uint64

	mu struct {
		sync.Mutex
		to     io.WriteCloser
		buf    *bufio.Writer
		events uint64
		err    error // the first; nothing is written after it
	}
}

// errClosed is what is kept after Close, so that late events are dropped.
var errClosed = errors.New("closed")

// Create makes a file and writes the header, with Format and Started filled in. Time 0 of the run is now.
func Create(path string, h Header) (*Writer, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create history: %w", err)
	}
	w, err := NewWriter(f, h)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create history %s: %w", path, err), f.Close())
	}
	return w, nil
}

// NewWriter is Create onto any writer, which Close closes.
func NewWriter(to io.WriteCloser, h Header) (*Writer, error) {
	w := &Writer{began: time.Now()}
	h.Format, h.Started = FormatVersion, w.began.Round(0)
	w.mu.to, w.mu.buf = to, bufio.NewWriterSize(to, writerBufferBytes)
	line, err := Append(nil, &h)
	if err != nil {
		return nil, err
	}
	if _, err := w.mu.buf.Write(line); err != nil {
		return nil, err
	}
	return w, w.mu.buf.Flush()
}

// Now is the run's time.
func (w *Writer) Now() time.Duration { return time.Since(w.began) }

// NextID returns an id for a message, from 1 and dense, so that checkers can keep ids in arrays.
func (w *Writer) NextID() uint64 { return w.ids.Add(1) }

var lines = sync.Pool{New: func() any { return new([]byte) }}

// Write appends an event. The event is the caller's again when Write returns.
func (w *Writer) Write(e Event) {
	buf := lines.Get().(*[]byte)
	defer lines.Put(buf)
	line, err := Append((*buf)[:0], e)
	*buf = line
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.err != nil {
		return
	}
	if err == nil {
		_, err = w.mu.buf.Write(line)
	}
	if w.mu.err = err; err == nil {
		w.mu.events++
	}
}

// Flush hands everything written so far to the operating system.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.err == nil {
		w.mu.err = w.mu.buf.Flush()
	}
	return w.mu.err
}

// Close writes the End and closes the file. All goroutines that write must have ended: what comes later is dropped. Its
// error is the first that any call met.
func (w *Writer) Close() error { return w.close(true) }

// Abandon closes the file without an End: the run did not come to its end.
func (w *Writer) Abandon() error { return w.close(false) }

func (w *Writer) close(end bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(w.mu.err, errClosed) {
		return nil
	}
	err := w.mu.err
	if err == nil && end {
		var line []byte
		if line, err = Append(nil, &End{At: w.Now(), Events: w.mu.events}); err == nil {
			_, err = w.mu.buf.Write(line)
		}
	}
	if err == nil {
		err = w.mu.buf.Flush()
	}
	err = errors.Join(err, w.mu.to.Close())
	w.mu.err = errClosed
	if err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}

// Append appends an event's line, its end included.
//
//	{"k":"dlv","at":1200345,"r":3,"s":17,"t":"app/a","id":9}
func Append(dst []byte, e Event) ([]byte, error) {
	if d, ok := e.(*Delivery); ok {
		return appendDelivery(dst, d), nil
	}
	dst = append(dst, `{"k":"`...)
	dst = append(dst, e.Kind()...)
	dst = append(dst, '"')
	body, err := json.Marshal(e)
	if err != nil {
		return dst, fmt.Errorf("encode event %s: %w", e.Kind(), err)
	}
	if len(body) > len("{}") {
		dst = append(dst, ',')
	}
	dst = append(dst, body[1:]...)
	return append(dst, '\n'), nil
}
