package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unsafe"
)

// wantError checks code and a part of the message.
func wantError(t *testing.T, err error, code Code, part string) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an *Error", err)
	}
	if e.Code != code || !strings.Contains(e.Message, part) {
		t.Fatalf("got %v, want %s: ...%s...", e, code, part)
	}
	return e
}

func change(b []byte, f func(b []byte)) []byte {
	b = bytes.Clone(b)
	f(b)
	return b
}

func TestReaderRules(t *testing.T) {
	ping := AppendEmpty(nil, TPing, 0)
	credit := AppendCredit(nil, 7, 1000)
	tests := []struct {
		name  string
		bad   []byte
		limit int
		code  Code
		part  string
	}{
		{"not the protocol", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), 0, CodeProtocol, "no frame begins here: magic is 0x2f"},
		{"flags", change(ping, func(b []byte) { b[flagsAt+1] = 1 }), 0, CodeProtocol, "unknown flags 0x0100"},
		{"too short", change(ping, func(b []byte) { b[0] = HeaderSize - 1 }), 0, CodeProtocol, "frame size 15 is less than its header"},
		{"over the protocol's limit", change(ping, func(b []byte) { le.PutUint32(b, MaxFrame+1) }), 0, CodeTooLarge, "at most 1179648"},
		{"over the reader's limit", AppendCredit(nil, 7, 1000), 23, CodeTooLarge, "frame of 24 bytes: at most 23"},
		{"huge", change(ping, func(b []byte) { le.PutUint32(b, 1<<32-1) }), 0, CodeTooLarge, "frame of 4294967295 bytes"},
		{"checksum", change(credit, func(b []byte) { b[HeaderSize] ^= 1 }), 0, CodeProtocol, "wrong checksum of a CREDIT of 24 bytes"},
		{"type 0", end(begin(nil), 0, 0, 0), 0, CodeProtocol, "unknown frame type 0"},
		{"type beyond the last", end(begin(nil), 0, TAnswer+1, 0), 0, CodeProtocol, "unknown frame type 24"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := NewReader(bytes.NewReader(append(bytes.Clone(ping), tt.bad...)), tt.limit)
			defer r.Close()
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
			_, err := r.Next()
			wantError(t, err, tt.code, "byte 16 of the connection: ")
			wantError(t, err, tt.code, tt.part)
			if _, again := r.Next(); again != err {
				t.Fatalf("the error does not stick: %v", again)
			}
			if r.Take() != nil {
				t.Fatal("a bad frame's buffer can be taken")
			}
		})
	}
}

// TestReaderFindsEveryFlippedBit flips each bit of a frame: no flip goes unnoticed.
func TestReaderFindsEveryFlippedBit(t *testing.T) {
	for _, s := range samples() {
		for i := range len(s.frame) * 8 {
			bad := change(s.frame, func(b []byte) { b[i/8] ^= 1 << (i % 8) })
			r := NewReader(bytes.NewReader(bad), 0)
			if f, err := r.Next(); err == nil {
				t.Fatalf("%s: bit %d of byte %d flipped: read as %s", s.name, i%8, i/8, f.Type)
			}
			r.Close()
		}
	}
}

// TestReaderEnd cuts a stream at every byte: a clean end only between frames.
func TestReaderEnd(t *testing.T) {
	one := AppendCredit(nil, 7, 1000)
	stream := append(bytes.Clone(one), one...)
	for cut := range len(stream) {
		r := NewReader(iotest.OneByteReader(bytes.NewReader(stream[:cut])), 0)
		for range cut / len(one) {
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
		}
		want := io.ErrUnexpectedEOF
		if cut%len(one) == 0 {
			want = io.EOF
		}
		for range 2 {
			if _, err := r.Next(); err != want {
				t.Fatalf("cut at %d: %v, want %v", cut, err, want)
			}
		}
		r.Close()
	}
}

// TestReaderGoesOnAfterTimeout: a read deadline between frames, or inside a header, loses nothing.
func TestReaderGoesOnAfterTimeout(t *testing.T) {
	one := AppendCredit(nil, 7, 1000)
	for _, cut := range []int{0, 5} {
		src := io.MultiReader(bytes.NewReader(one[:cut]), iotest.ErrReader(iotest.ErrTimeout))
		r := NewReader(&switchReader{first: src, then: bytes.NewReader(one[cut:])}, 0)
		if _, err := r.Next(); err != iotest.ErrTimeout {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		f, err := r.Next()
		if err != nil || f.Type != TCredit {
			t.Fatalf("cut at %d: %v %v", cut, f, err)
		}
		r.Close()
	}
}

// switchReader reads first until its error, then the other.
type switchReader struct {
	first, then io.Reader
	failed      bool
}

func (s *switchReader) Read(p []byte) (int, error) {
	if s.failed {
		return s.then.Read(p)
	}
	n, err := s.first.Read(p)
	s.failed = err != nil
	return n, err
}

// sizedFrame is an ERROR-typed frame of n body bytes that are not looked at.
func sizedFrame(id uint32, n int) []byte {
	frame := append(begin(nil), bytes.Repeat([]byte{byte(id)}, n)...)
	return end(frame, 0, TPublish, id)
}

// TestReaderTake takes some bodies of all sizes: they keep their content while others are read, and are 8-aligned.
func TestReaderTake(t *testing.T) {
	sizes := []int{0, 1, 100, 1024, 1025, 5000, 20_000, 64 << 10, 70_000, 300_000, MaxFrame - HeaderSize, 3}
	var stream []byte
	for id, n := range sizes {
		stream = append(stream, sizedFrame(uint32(id), n)...)
	}
	for _, src := range []io.Reader{bytes.NewReader(stream), iotest.HalfReader(bytes.NewReader(stream)), iotest.DataErrReader(bytes.NewReader(stream))} {
		r := NewReader(src, 0)
		taken := map[int]*Buffer{}
		for id, n := range sizes {
			f, err := r.Next()
			if err != nil || int(f.ID) != id || len(f.Body) != n {
				t.Fatalf("frame %d: %v, id %d of %d bytes", id, err, f.ID, len(f.Body))
			}
			if n > 0 && uintptr(unsafe.Pointer(&f.Body[0]))%8 != 0 {
				t.Fatalf("frame %d: body is not aligned", id)
			}
			if id%2 == 0 {
				taken[id] = r.Take()
				if r.Take() != nil {
					t.Fatal("taken twice")
				}
			}
		}
		for id, b := range taken {
			if !bytes.Equal(b.B, bytes.Repeat([]byte{byte(id)}, sizes[id])) {
				t.Fatalf("body %d changed after it was taken", id)
			}
			if want := classes[classOf(sizes[id])]; cap(b.B) != want {
				t.Fatalf("%d bytes hold a buffer of %d, want %d", sizes[id], cap(b.B), want)
			}
			b.Free()
		}
		r.Close()
		if _, err := r.Next(); err == nil {
			t.Fatal("read after Close")
		}
	}
}

func TestReaderBuffered(t *testing.T) {
	one := AppendCredit(nil, 7, 1000)
	stream := append(append(bytes.Clone(one), one...), one[:20]...)
	r := NewReader(bytes.NewReader(stream), 0)
	defer r.Close()
	if r.Buffered() {
		t.Fatal("buffered before the first read")
	}
	for _, want := range []bool{true, false} {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		if r.Buffered() != want {
			t.Fatalf("Buffered is %v, want %v", r.Buffered(), want)
		}
	}
}

func TestReaderSetMaxFrame(t *testing.T) {
	big := sizedFrame(1, 100)
	r := NewReader(bytes.NewReader(append(bytes.Clone(big), big...)), 116)
	defer r.Close()
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	r.SetMaxFrame(115)
	_, err := r.Next()
	if e := wantError(t, err, CodeTooLarge, "at most 115"); e.Detail != 115 {
		t.Fatalf("detail is %d", e.Detail)
	}
}

// loop reads the same bytes for ever.
type loop struct {
	b   []byte
	off int
}

func (l *loop) Read(p []byte) (int, error) {
	n := copy(p, l.b[l.off:])
	l.off = (l.off + n) % len(l.b)
	return n, nil
}

func TestReaderDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools drop buffers")
	}
	var stream []byte
	for _, s := range samples() {
		stream = append(stream, s.frame...)
	}
	stream = append(stream, sizedFrame(1, 100_000)...)
	r := NewReader(&loop{b: stream}, 0)
	defer r.Close()
	frames := len(samples()) + 1
	read := func() {
		for range frames {
			f, err := r.Next()
			if err != nil {
				panic(err)
			}
			if f.Type == TPublish {
				r.Take().Free()
			}
		}
	}
	read() // fills the pools
	if n := testing.AllocsPerRun(100, read); n != 0 {
		t.Fatalf("%v allocations for %d frames", n, frames)
	}
}
