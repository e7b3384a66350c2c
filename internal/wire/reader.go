package wire

import (
	"bufio"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// readBuffer is what a reader asks the connection for at once, in bytes. Of a body, at least what is beyond this is read
// straight into the body's own buffer.
const readBuffer = 16 << 10

// Reader reads frames from a connection, one goroutine. A malformed frame is an *Error of CodeProtocol or CodeTooLarge that
// says what is wrong and at which byte of the connection; the reader is of no use afterwards. io.EOF is returned only
// between frames, io.ErrUnexpectedEOF within one.
type Reader struct {
	br       *bufio.Reader
	maxFrame int              // HeaderSize <= maxFrame <= MaxFrame
	head     [HeaderSize]byte // of the frame being read: here because hashing would move it to the heap
	body     *Buffer          // of the last frame; nil before the first and when taken
	offset   int64            // of the next frame in the connection's bytes
	err      error            // sticks
}

// NewReader reads frames of at most maxFrame bytes from r; 0 or more than MaxFrame mean MaxFrame.
func NewReader(r io.Reader, maxFrame int) *Reader {
	rd := &Reader{br: bufio.NewReaderSize(r, readBuffer)}
	rd.SetMaxFrame(maxFrame)
	return rd
}

// SetMaxFrame changes the limit for the next frames: a server begins with MaxHandshakeFrame, so that a stranger cannot make
// it hold large buffers.
func (r *Reader) SetMaxFrame(n int) {
	if n <= 0 || n > MaxFrame {
		n = MaxFrame
	}
	r.maxFrame = max(n, HeaderSize)
}

// Offset is how many bytes the frames read so far had.
func (r *Reader) Offset() int64 { return r.offset }

// Buffered says whether Next would return without reading from the connection: a server flushes its answers before Next
// if not.
func (r *Reader) Buffered() bool {
	n := r.br.Buffered()
	if n < HeaderSize {
		return false
	}
	header, err := r.br.Peek(HeaderSize)
	return err == nil && uint64(n) >= uint64(le.Uint32(header))
}

// Next reads a frame. Its body is valid until the next call, unless taken. After an error of the connection between two frames
// (a read deadline, say) Next may be called again; all other errors stick.
func (r *Reader) Next() (Frame, error) {
	if r.err != nil {
		return Frame{}, r.err
	}
	header, err := r.br.Peek(HeaderSize)
	if err != nil {
		if errors.Is(err, io.EOF) && len(header) > 0 {
			r.err = io.ErrUnexpectedEOF
			return Frame{}, r.err
		}
		return Frame{}, err
	}
	f, err := r.read(header)
	if err != nil {
		r.err = err
		return Frame{}, err
	}
	r.offset += int64(HeaderSize + len(f.Body))
	return f, nil
}

// read reads the frame whose header was peeked.
func (r *Reader) read(header []byte) (Frame, error) {
	if err := r.checkHeader(header); err != nil {
		return Frame{}, err
	}
	h := &r.head
	copy(h[:], header) // the peeked bytes move when the body is read
	if _, err := r.br.Discard(HeaderSize); err != nil {
		return Frame{}, err
	}
	body := r.reserve(int(le.Uint32(h[:])) - HeaderSize)
	if _, err := io.ReadFull(r.br, body); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, err
	}
	crc := crc32.Update(crc32.Checksum(body, castagnoli), castagnoli, h[:crcAt])
	t := Type(h[typeAt])
	if crc != le.Uint32(h[crcAt:]) {
		return Frame{}, r.fail(CodeProtocol, "wrong checksum of a %s of %d bytes", t, HeaderSize+len(body))
	}
	if !t.known() {
		return Frame{}, r.fail(CodeProtocol, "unknown frame type %d", uint8(t))
	}
	return Frame{Type: t, ID: le.Uint32(h[idAt:]), Body: body}, nil
}

// checkHeader checks what must hold before the size is believed.
func (r *Reader) checkHeader(h []byte) error {
	size := le.Uint32(h)
	switch {
	case h[magicAt] != magic:
		return r.fail(CodeProtocol, "no frame begins here: magic is %#02x", h[magicAt])
	case le.Uint16(h[flagsAt:]) != 0:
		return r.fail(CodeProtocol, "frame has unknown flags %#04x", le.Uint16(h[flagsAt:]))
	case size < HeaderSize:
		return r.fail(CodeProtocol, "frame size %d is less than its header", size)
	case uint64(size) > uint64(r.maxFrame):
		e := r.fail(CodeTooLarge, "frame of %d bytes: at most %d", size, r.maxFrame)
		e.Detail = uint64(r.maxFrame)
		return e
	}
	return nil
}

func (r *Reader) fail(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf("byte %d of the connection: ", r.offset) + fmt.Sprintf(format, args...)}
}

// reserve returns n bytes of a buffer of their class: the last frame's if it is of the same and was not taken.
func (r *Reader) reserve(n int) []byte {
	if r.body != nil && int(r.body.class) == classOf(n) {
		r.body.B = r.body.B[:n]
		return r.body.B
	}
	r.body.Free()
	r.body = GetBuffer(n)
	return r.body.B
}

// Take makes the caller the owner of the buffer behind the last frame: its B is the frame's body. Nil if there is none or it was
// taken.
func (r *Reader) Take() *Buffer {
	b := r.body
	r.body = nil
	if b != nil && r.err != nil {
		b.Free()
		return nil
	}
	return b
}

// Close frees the reader's buffer. The connection is the caller's.
func (r *Reader) Close() {
	r.body.Free()
	r.body = nil
	if r.err == nil {
		r.err = errors.New("wire: read after the reader was closed")
	}
}
