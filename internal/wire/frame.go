package wire

import (
	"errors"
	"hash/crc32"

	"github.com/cantus-bus/cantus/internal/record"
)

// A frame (little-endian):
//
//	 0 u32 size    bytes of the frame, header included; HeaderSize <= size <= MaxFrame
//	 4 u8 magic 0xCA   5 u8 type   6 u16 flags 0
//	 8 u32 id      subscription or request that the frame speaks of, 0 if none
//	12 u32 crc32c of bytes 16 to end, then of 0 to 12
//	16 body
const (
	magic = 0xCA

	magicAt = 4
	typeAt  = 5
	flagsAt = 6
	idAt    = 8
	crcAt   = 12
)

// Frame is one frame as read: Body is valid until the reader's next call, or until its taken buffer is freed.
type Frame struct {
	Type Type
	ID   uint32
	Body []byte
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// begin adds room for a header; end fills it in.
func begin(dst []byte) []byte {
	var header [HeaderSize]byte
	return append(dst, header[:]...)
}

// end completes the frame that begins at start and reaches to the end of dst.
func end(dst []byte, start int, t Type, id uint32) []byte {
	frame := dst[start:]
	putHeader(frame, len(frame), t, id, crc32.Checksum(frame[HeaderSize:], castagnoli))
	return dst
}

// putHeader writes the header of a frame of size bytes whose body has this checksum.
func putHeader(h []byte, size int, t Type, id, bodyCRC uint32) {
	le.PutUint32(h, uint32(size))
	h[magicAt] = magic
	h[typeAt] = byte(t)
	le.PutUint16(h[flagsAt:], 0)
	le.PutUint32(h[idAt:], id)
	le.PutUint32(h[crcAt:], crc32.Update(bodyCRC, castagnoli, h[:crcAt]))
}

// AppendEmpty adds a frame without a body: PING, PONG, UNSUBSCRIBE, GOODBYE.
func AppendEmpty(dst []byte, t Type, id uint32) []byte {
	return end(begin(dst), len(dst), t, id)
}

// DecodeEmpty checks that a frame without a body has none.
func DecodeEmpty(b []byte) error {
	d := decoder{b: b}
	return d.finish("frame without a body")
}

// AppendPublish adds a PUBLISH with a copy of the batch.
func AppendPublish(dst []byte, id uint32, b record.Batch) []byte {
	return end(append(begin(dst), b...), len(dst), TPublish, id)
}

// AppendPublishHeader adds the header of a PUBLISH whose batch the caller sends right after, uncopied.
func AppendPublishHeader(dst []byte, id uint32, b record.Batch) []byte {
	start := len(dst)
	dst = begin(dst)
	putHeader(dst[start:], HeaderSize+len(b), TPublish, id, crc32.Checksum(b, castagnoli))
	return dst
}

// DecodePublish validates the batch, all but its topic numbers (aliases). A batch that only breaks a limit is CodeTooLarge: the
// connection can go on.
func DecodePublish(b []byte) (record.Batch, error) {
	batch := record.Batch(b)
	if err := batch.Validate(); err != nil {
		e := protocolError("PUBLISH: %v", err)
		if errors.Is(err, record.ErrTooLarge) {
			e.Code = CodeTooLarge
		}
		return nil, e
	}
	return batch, nil
}

// AppendDataHeader adds the header of a DATA frame, DataHeaderSize bytes, for a run of count records that the caller sends
// right after in parts, at most MaxDataRun bytes in all. The parts are read for the checksum, not copied.
//
// Body: u64 prev, u32 count, u32 source (0 memory, 1 history), records.
func AppendDataHeader(dst []byte, id uint32, prev uint64, count uint32, parts [][]byte) []byte {
	return appendDataHeader(dst, id, prev, count, 0, parts)
}

// AppendHistoryHeader is AppendDataHeader for records that were read from disk.
func AppendHistoryHeader(dst []byte, id uint32, prev uint64, count uint32, parts [][]byte) []byte {
	return appendDataHeader(dst, id, prev, count, sourceHistory, parts)
}

// sourceHistory marks a DATA frame whose records were read from disk.
const sourceHistory = 1

func appendDataHeader(dst []byte, id uint32, prev uint64, count, source uint32, parts [][]byte) []byte {
	start := len(dst)
	dst = begin(dst)
	dst = le.AppendUint64(dst, prev)
	dst = le.AppendUint32(dst, count)
	dst = le.AppendUint32(dst, source)
	size := DataHeaderSize
	crc := crc32.Checksum(dst[start+HeaderSize:], castagnoli)
	for _, p := range parts {
		size += len(p)
		crc = crc32.Update(crc, castagnoli, p)
	}
	putHeader(dst[start:], size, TData, id, crc)
	return dst
}

// DecodeData checks the run's records and their count. Run is a view into b.
func DecodeData(b []byte) (Data, error) {
	d := decoder{b: b}
	data := Data{Prev: d.u64(), Count: d.u32()}
	source := d.u32()
	data.Run, data.History = d.rest(), source == sourceHistory
	if err := d.finish("DATA"); err != nil {
		return Data{}, err
	}
	if data.Count == 0 {
		return Data{}, protocolError("DATA: no records")
	}
	if source > sourceHistory {
		return Data{}, protocolError("DATA: source %d is not known", source)
	}
	if err := record.ValidateRun(data.Run, int(data.Count)); err != nil {
		return Data{}, protocolError("DATA: %v", err)
	}
	return data, nil
}
