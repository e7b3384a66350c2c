package fsm

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cantus-bus/cantus/internal/record"
)

// A state as bytes, little-endian:
//
//	 0 "CNTSTATE"   8 u32 version 1   12 u32 crc32c of bytes 0 to 12
//	16 blocks: those of section 1, then those of section 2, and so on to the last
//
//	block   0 u8 section   1 u8 1: the section's last block, else 0   2 u16 0   4 u32 bytes of payload, at most blockSize
//	        8 payload      then u32 crc32c of all bytes of the state before it, header and earlier blocks included
//
// A section is the payloads of its blocks, one after the other; all blocks but the last are full. Sections are drawn in state_write.go.
// The checksum runs through, so that a block that is missing, or stands elsewhere, is found like a flipped bit.
const (
	stateMagic   = "CNTSTATE"
	stateVersion = 1

	stateHeaderSize = 16
	blockHeaderSize = 8
	blockSize       = 64 << 10
	checksumSize    = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// blockWriter cuts sections into blocks. After an error it writes nothing more.
type blockWriter struct {
	w       io.Writer
	crc     uint32
	written int64
	err     error
	section byte
	block   []byte // header, and payload so far
}

func newBlockWriter(w io.Writer) *blockWriter {
	b := &blockWriter{w: w, block: make([]byte, blockHeaderSize, blockHeaderSize+blockSize+checksumSize)}
	head := binary.LittleEndian.AppendUint32([]byte(stateMagic), stateVersion)
	b.emit(head)
	return b
}

// emit writes bytes and the checksum up to there; p has room for it.
func (b *blockWriter) emit(p []byte) {
	if b.err != nil {
		return
	}
	b.crc = crc32.Update(b.crc, castagnoli, p)
	p = binary.LittleEndian.AppendUint32(p, b.crc)
	b.crc = crc32.Update(b.crc, castagnoli, p[len(p)-checksumSize:])
	n, err := b.w.Write(p)
	b.written += int64(n)
	b.err = err
}

// Write adds to the section.
func (b *blockWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0 && b.err == nil; {
		if len(b.block) == blockHeaderSize+blockSize {
			b.flush(0)
		}
		n := min(len(rest), blockHeaderSize+blockSize-len(b.block))
		b.block = append(b.block, rest[:n]...)
		rest = rest[n:]
	}
	return len(p), b.err
}

// end ends the section; the next begins.
func (b *blockWriter) end() { b.flush(1) }

func (b *blockWriter) flush(last byte) {
	h := b.block[:blockHeaderSize]
	h[0], h[1] = b.section, last
	binary.LittleEndian.PutUint32(h[4:], uint32(len(b.block)-blockHeaderSize))
	b.emit(b.block)
	b.block = b.block[:blockHeaderSize]
}

// blockReader gives a section's bytes, none of which it has not checked. It never reads beyond the block it needs.
type blockReader struct {
	r       io.Reader
	crc     uint32
	offset  int64 // of what comes next in r
	section byte
	last    bool   // the section's last block is in rest
	rest    []byte // of the block in hand
	buf     [blockHeaderSize + blockSize + checksumSize]byte
}

// corrupt makes the error of what was found at an offset.
func (b *blockReader) corrupt(at int64, format string, a ...any) error {
	return fmt.Errorf("offset %d: %s: %w", at, fmt.Sprintf(format, a...), record.ErrCorrupt)
}

// fill reads n bytes to buf[at:].
func (b *blockReader) fill(at, n int) error {
	got, err := io.ReadFull(b.r, b.buf[at:at+n])
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return b.corrupt(b.offset+int64(got), "it ends here")
	}
	if err != nil {
		return fmt.Errorf("offset %d: %w", b.offset+int64(got), err)
	}
	b.offset += int64(n)
	return nil
}

// check holds buf[:n] against the checksum behind it.
func (b *blockReader) check(n int) error {
	at := b.offset - int64(n) - checksumSize
	b.crc = crc32.Update(b.crc, castagnoli, b.buf[:n])
	if got, want := binary.LittleEndian.Uint32(b.buf[n:]), b.crc; got != want {
		return b.corrupt(at, "checksum is %#x, but that of the bytes up to there is %#x", got, want)
	}
	b.crc = crc32.Update(b.crc, castagnoli, b.buf[n:n+checksumSize])
	return nil
}

// header reads what stands before the blocks.
func (b *blockReader) header() error {
	if err := b.fill(0, stateHeaderSize); err != nil {
		return err
	}
	if string(b.buf[:len(stateMagic)]) != stateMagic {
		return b.corrupt(0, "it begins with %q, not with %q: this is not a state", b.buf[:len(stateMagic)], stateMagic)
	}
	if err := b.check(stateHeaderSize - checksumSize); err != nil {
		return err
	}
	if v := binary.LittleEndian.Uint32(b.buf[len(stateMagic):]); v != stateVersion {
		return b.corrupt(8, "it is of version %d, this program knows version %d: was it written by a newer one?", v, stateVersion)
	}
	return nil
}

// begin goes on to the next section; the one before must have been read to its end.
func (b *blockReader) begin(section byte) {
	b.section, b.last, b.rest = section, false, nil
}

// Read implements io.Reader; io.EOF is the section's end.
func (b *blockReader) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		if b.last {
			return 0, io.EOF
		}
		if err := b.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// next reads and checks a block.
func (b *blockReader) next() error {
	at := b.offset
	if err := b.fill(0, blockHeaderSize); err != nil {
		return err
	}
	size := binary.LittleEndian.Uint32(b.buf[4:])
	last := b.buf[1]
	if size > blockSize || b.buf[0] != b.section || last > 1 || last == 0 && size != blockSize || b.buf[2] != 0 || b.buf[3] != 0 {
		return b.corrupt(at, "a block of section %d was to come, not %x", b.section, b.buf[:blockHeaderSize])
	}
	if err := b.fill(blockHeaderSize, int(size)+checksumSize); err != nil {
		return err
	}
	if err := b.check(blockHeaderSize + int(size)); err != nil {
		return err
	}
	b.last, b.rest = last == 1, b.buf[blockHeaderSize:blockHeaderSize+size]
	return nil
}
