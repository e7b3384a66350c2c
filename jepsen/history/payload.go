package history

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// MinPayload is the size in bytes of a payload without padding.
//
//	0   8  id, little-endian
//	8   8  value, little-endian, two's complement
//	16  4  CRC-32C of all other bytes
//	20  -  padding: bytes that follow from the id
const MinPayload = 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrPayload means bytes that AppendPayload did not make.
var ErrPayload = errors.New("payload is none of the harness's, or was changed")

// AppendPayload appends the payload of a message, size bytes long, MinPayload at least.
func AppendPayload(dst []byte, id uint64, value int64, size int) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint64(dst, id)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(value))
	dst = append(dst, 0, 0, 0, 0)
	noise := id + 1 // bytes that no codec makes smaller
	for range size - MinPayload {
		noise = noise*6364136223846793005 + 1442695040888963407 // the constants of Knuth's MMIX
		dst = append(dst, byte(noise>>56))
	}
	binary.LittleEndian.PutUint32(dst[start+16:], payloadSum(dst[start:]))
	return dst
}

// ParsePayload returns what AppendPayload put in, or ErrPayload.
func ParsePayload(b []byte) (id uint64, value int64, err error) {
	if len(b) < MinPayload || binary.LittleEndian.Uint32(b[16:]) != payloadSum(b) {
		return 0, 0, ErrPayload
	}
	return binary.LittleEndian.Uint64(b), int64(binary.LittleEndian.Uint64(b[8:])), nil
}

func payloadSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:16], castagnoli), castagnoli, b[MinPayload:])
}
