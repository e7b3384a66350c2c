package record

import (
	"fmt"
	"unicode/utf8"
)

// The header block of a record:
//
//	0 u16 n       bytes that follow, 1..MaxHeaderBytes
//	2 n bytes     {u8 key length >= 1, u16 value length, key (UTF-8), value}...
const (
	headerCountSize = 2
	headerFixedSize = 3
)

// Header is one string pair beside the payload. Keys are UTF-8, not empty, at most MaxHeaderKey bytes, and may repeat;
// values are any bytes. The order is kept.
type Header struct{ Key, Value string }

// CheckHeaders says whether headers can be encoded: nil, or an error of ErrBadHeader or ErrTooLarge.
func CheckHeaders(headers []Header) error {
	for i, h := range headers {
		switch {
		case h.Key == "":
			return fmt.Errorf("record: header %d: %w: the key is empty", i, ErrBadHeader)
		case len(h.Key) > MaxHeaderKey:
			return fmt.Errorf("record: header %d: %w: the key has %d bytes, at most %d", i, ErrBadHeader, len(h.Key), MaxHeaderKey)
		case !utf8.ValidString(h.Key):
			return fmt.Errorf("record: header %d: %w: the key is not UTF-8", i, ErrBadHeader)
		}
	}
	if n := headerBlockSize(headers); n > headerCountSize+MaxHeaderBytes {
		return fmt.Errorf("record: headers of %d bytes: %w of %d", n-headerCountSize, ErrTooLarge, MaxHeaderBytes)
	}
	return nil
}

// headerBlockSize is 0 without headers, else the block with its count.
func headerBlockSize(headers []Header) int {
	if len(headers) == 0 {
		return 0
	}
	n := headerCountSize
	for i := range headers {
		n += headerFixedSize + len(headers[i].Key) + len(headers[i].Value)
	}
	return n
}

// appendHeaders adds the block of checked headers, nothing if there are none.
func appendHeaders(dst []byte, headers []Header) []byte {
	if len(headers) == 0 {
		return dst
	}
	dst = le.AppendUint16(dst, uint16(headerBlockSize(headers)-headerCountSize))
	for _, h := range headers {
		dst = append(dst, byte(len(h.Key)))
		dst = le.AppendUint16(dst, uint16(len(h.Value)))
		dst = append(dst, h.Key...)
		dst = append(dst, h.Value...)
	}
	return dst
}

// checkHeaderBlock checks the block that begins body and returns its bytes, count included.
func checkHeaderBlock(body []byte) (int, string) {
	if len(body) < headerCountSize {
		return 0, "header block is cut short"
	}
	n := int(le.Uint16(body))
	switch {
	case n == 0:
		return 0, "header block is empty"
	case n > MaxHeaderBytes:
		return 0, "header block is " + overLimit
	case n > len(body)-headerCountSize:
		return 0, "header block is longer than its record"
	}
	for block := body[headerCountSize : headerCountSize+n]; len(block) > 0; {
		size, rule := checkHeader(block)
		if rule != "" {
			return 0, rule
		}
		block = block[size:]
	}
	return headerCountSize + n, ""
}

// checkHeader checks the first header of a block and returns its bytes.
func checkHeader(block []byte) (int, string) {
	if len(block) < headerFixedSize {
		return 0, "header is cut short"
	}
	key, value := int(block[0]), int(le.Uint16(block[1:]))
	size := headerFixedSize + key + value
	switch {
	case key == 0:
		return 0, "header key is empty"
	case size > len(block):
		return 0, "header is longer than its block"
	case !utf8.Valid(block[headerFixedSize : headerFixedSize+key]):
		return 0, "header key is not UTF-8"
	}
	return size, ""
}

// parseHeaders decodes a checked block.
func parseHeaders(body []byte) []Header {
	block := body[headerCountSize : headerCountSize+int(le.Uint16(body))]
	var out []Header
	for len(block) > 0 {
		key := headerFixedSize + int(block[0])
		end := key + int(le.Uint16(block[1:]))
		out = append(out, Header{Key: string(block[headerFixedSize:key]), Value: string(block[key:end])})
		block = block[end:]
	}
	return out
}
