package wire

import (
	"math"
	"unicode/utf8"
)

// appendString adds {u16 length, bytes}. A string that is too long for its field is encoded all the same (cut to what the
// length can say, which is over every limit), so that the receiver refuses it by name.
func appendString[S string | []byte](dst []byte, s S) []byte {
	n := min(len(s), math.MaxUint16)
	dst = le.AppendUint16(dst, uint16(n))
	return append(dst, s[:n]...)
}

// decoder takes fields off a body. The first failure sticks; later fields read as zero.
type decoder struct {
	b   []byte // whole body
	off int    // of the next field
	err *Error // without the frame's name, which finish adds
}

// fail keeps the first failure.
func (d *decoder) fail(code Code, what string) {
	if d.err == nil {
		d.err = &Error{Code: code, Message: what}
	}
}

// take returns the next n bytes, nil after a failure.
func (d *decoder) take(n int) []byte {
	if d.err != nil {
		return nil
	}
	if n > len(d.b)-d.off {
		d.fail(CodeProtocol, "body is cut short")
		return nil
	}
	d.off += n
	return d.b[d.off-n : d.off]
}

func (d *decoder) u8() uint8 {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) u16() uint16 {
	if b := d.take(2); b != nil {
		return le.Uint16(b)
	}
	return 0
}

func (d *decoder) u32() uint32 {
	if b := d.take(4); b != nil {
		return le.Uint32(b)
	}
	return 0
}

func (d *decoder) u64() uint64 {
	if b := d.take(8); b != nil {
		return le.Uint64(b)
	}
	return 0
}

// zero takes n reserved bytes.
func (d *decoder) zero(n int) {
	for _, c := range d.take(n) {
		if c != 0 {
			d.fail(CodeProtocol, "reserved bytes are not zero")
		}
	}
}

// bytes takes {u16 length, bytes}: a view.
func (d *decoder) bytes(limit int, code Code, what string) []byte {
	n := int(d.u16())
	if d.err == nil && n > limit {
		d.fail(code, what+" is over its limit")
	}
	return d.take(n)
}

// str takes a string of at most limit bytes; what names it in errors, which have this code.
func (d *decoder) str(limit int, code Code, what string) string {
	b := d.bytes(limit, code, what)
	if !utf8.Valid(b) {
		d.fail(code, what+" is not UTF-8")
		return ""
	}
	return string(b)
}

// name is str for strings that must not be empty.
func (d *decoder) name(limit int, code Code, what string) string {
	s := d.str(limit, code, what)
	if s == "" {
		d.fail(code, what+" is empty")
	}
	return s
}

// count takes a u16 number of items of at least size bytes each, so that a list is not allocated before its bytes are there.
func (d *decoder) count(limit, size int, code Code, what string) int {
	n := int(d.u16())
	switch {
	case d.err != nil:
	case n > limit:
		d.fail(code, what+" are more than the limit")
		d.err.Detail = uint64(limit)
	case n*size > len(d.b)-d.off:
		d.fail(CodeProtocol, what+" are more than the body can hold")
	default:
		return n
	}
	return 0
}

// rest takes what is left.
func (d *decoder) rest() []byte { return d.take(len(d.b) - d.off) }

// finish returns the first failure, or one for bytes that nobody took.
func (d *decoder) finish(frame string) error {
	if d.err == nil && d.off < len(d.b) {
		d.fail(CodeProtocol, "bytes after the last field")
	}
	if d.err == nil {
		return nil
	}
	e := *d.err
	e.Message = protocolError("%s: %s at byte %d of the body", frame, e.Message, d.off).Message
	return &e
}
