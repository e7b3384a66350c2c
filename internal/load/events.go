package load

import (
	"github.com/cantus-bus/cantus/internal/dataset"
)

// events makes payloads that look like what a game's clients send: small JSON objects that differ in a few fields, so
// that they compress as such streams do.
type events struct {
	rng dataset.Rand
	buf []byte
}

var eventTypes = [...]string{"move", "dig", "found", "trade", "chat", "join", "leave", "score"}

// next returns an event of exactly size bytes, valid until the next call. Short sizes cut it, long ones pad it.
func (e *events) next(size int) []byte {
	bits := e.rng.Next()
	b := append(e.buf[:0], `{"type":"`...)
	b = append(b, eventTypes[bits&7]...)
	b = append(b, `","player":"p`...)
	b = digits(b, e.rng.Next(), 7)
	b = append(b, `","team":"t`...)
	b = digits(b, bits>>3, 3)
	b = append(b, `","x":4`...)
	b = digits(b, e.rng.Next(), 3)
	b = append(b, `,"y":1`...)
	b = digits(b, bits>>24, 3)
	b = append(b, `,"score":1`...)
	b = digits(b, bits>>40, 4)
	b = append(b, `,"at":17672256`...)
	b = digits(b, e.rng.Next(), 5)
	b = append(b, `,"note":"`...)
	if room := size - len(b) - 2; room > 0 {
		b = e.words(b, room)
	}
	b = append(b, `"}`...)
	e.buf = b
	return b[:size:size]
}

var notes = [...]string{"gold ", "under ", "the ", "old ", "oak ", "north ", "of ", "river ", "stone ", "map ", "near ", "a ", "key ", "two ", "steps ", "from "}

// words adds n bytes of text that needs no escapes.
func (e *events) words(b []byte, n int) []byte {
	end := len(b) + n
	for len(b) < end {
		for bits := e.rng.Next(); bits != 0 && len(b) < end; bits >>= 4 {
			b = append(b, notes[bits&15]...)
		}
	}
	return b[:end]
}

// digits adds the last n decimal digits of v.
func digits(b []byte, v uint64, n int) []byte {
	for range n {
		b = append(b, byte('0'+v%10))
		v /= 10
	}
	return b
}
