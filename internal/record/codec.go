package record

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codec is how an entry's body is compressed. Codecs are written to disk: never renumber.
type Codec uint8

const (
	CodecNone Codec = iota
	CodecS2         // the default: least CPU per byte saved, see DESIGN.md
	CodecLZ4        // block format
	CodecZstd       // fastest level
)

var codecNames = [...]string{"none", "s2", "lz4", "zstd"}

// String is the codec's name as in configuration.
func (c Codec) String() string {
	if int(c) >= len(codecNames) {
		return fmt.Sprintf("codec(%d)", uint8(c))
	}
	return codecNames[c]
}

// ParseCodec is the inverse of String.
func ParseCodec(name string) (Codec, error) {
	for c, n := range codecNames {
		if n == name {
			return Codec(c), nil
		}
	}
	return CodecNone, fmt.Errorf("record: no codec %q: use one of %v", name, codecNames)
}

// compressor holds what compressing reuses from entry to entry.
type compressor struct {
	out  []byte
	lz4  lz4.Compressor
	zstd *zstd.Encoder // made at first use
}

// compress returns the compressed body in memory of the compressor, or ok false if that saves less than an eighth.
func (c *compressor) compress(codec Codec, body []byte) (out []byte, ok bool) {
	limit := len(body) - len(body)/8
	switch codec {
	case CodecS2:
		c.grow(s2.MaxEncodedLen(len(body)))
		out = s2.Encode(c.out, body)
	case CodecLZ4:
		c.grow(lz4.CompressBlockBound(len(body)))
		n, err := c.lz4.CompressBlock(body, c.out)
		if err != nil || n == 0 { // 0: cannot be compressed; errors: c.out too small, which the bound excludes
			return nil, false
		}
		out = c.out[:n]
	case CodecZstd:
		if c.zstd == nil {
			c.zstd = newZstdEncoder()
		}
		c.out = c.zstd.EncodeAll(body, c.out[:0])
		out = c.out
	default:
		return nil, false
	}
	return out, len(out) < len(body) && len(out) <= limit
}

func (c *compressor) grow(n int) {
	if cap(c.out) < n {
		c.out = make([]byte, n)
	}
	c.out = c.out[:cap(c.out)]
}

func newZstdEncoder() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic("record: zstd refuses constant options: " + err.Error())
	}
	return e
}

// zstdDecoders keeps decoders between entries: they are costly to make and hold no state of an entry.
var zstdDecoders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(MaxEntryRaw), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic("record: zstd refuses constant options: " + err.Error())
	}
	return d
}}

// decompress fills body exactly, or returns a rule. It never writes beyond body nor allocates by what stored claims.
func (c Codec) decompress(body, stored []byte) string {
	switch c {
	case CodecS2:
		n, err := s2.DecodedLen(stored)
		if err != nil || n != len(body) {
			return "length in the s2 body differs from the raw size"
		}
		if _, err := s2.Decode(body, stored); err != nil {
			return "s2 body does not decompress"
		}
	case CodecLZ4:
		n, err := lz4.UncompressBlock(stored, body)
		if err != nil || n != len(body) {
			return "lz4 body does not decompress to the raw size"
		}
	case CodecZstd:
		d := zstdDecoders.Get().(*zstd.Decoder)
		out, err := d.DecodeAll(stored, body[:0:len(body)])
		zstdDecoders.Put(d)
		if err != nil || len(out) != len(body) {
			return "zstd body does not decompress to the raw size"
		}
	default:
		return "entry is not compressed"
	}
	return ""
}
