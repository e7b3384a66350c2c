package wire

import "sync"

// classes are the sizes of pooled buffers in bytes, ascending: a small frame that is kept must not hold a large buffer. The
// last takes the largest frame.
var classes = [...]int{1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, MaxFrame}

// pools hold free buffers by class. They are process-wide because buffers of different connections are alike.
var pools [len(classes)]sync.Pool

// Buffer is a pooled byte buffer that begins at a multiple of 8. One owner at a time; Free gives it back.
type Buffer struct {
	B     []byte // what the owner uses of it
	class int8   // index in classes and pools; -1: larger than all, not pooled
	freed bool   // invariants builds only: in the pool
}

// GetBuffer returns a buffer with len(B) == n and unspecified content.
func GetBuffer(n int) *Buffer {
	class := classOf(n)
	if class < 0 {
		return &Buffer{B: make([]byte, n), class: -1}
	}
	b, _ := pools[class].Get().(*Buffer)
	if b == nil {
		b = &Buffer{B: make([]byte, classes[class]), class: int8(class)}
	}
	b.B = b.B[:n]
	b.freed = false
	return b
}

// classOf is the smallest class that holds n bytes, -1 if none does.
func classOf(n int) int {
	for class, size := range classes {
		if n <= size {
			return class
		}
	}
	return -1
}

// Free gives the buffer back: nobody may use B afterwards. Nil is fine. In builds with the tag "invariants" a second Free
// panics and the bytes are overwritten.
func (b *Buffer) Free() {
	if b == nil || b.class < 0 {
		return
	}
	if invariants {
		if b.freed {
			panic("wire: buffer freed twice")
		}
		b.freed = true
		poison(b.B[:cap(b.B)])
	}
	pools[b.class].Put(b)
}

// poison makes use after Free visible.
func poison(b []byte) {
	for i := range b {
		b[i] = 0xDB
	}
}
