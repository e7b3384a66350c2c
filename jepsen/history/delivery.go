package history

import (
	"encoding/json"
	"strconv"
)

// appendDelivery is Append for the events that a run has most of. It does not allocate.
func appendDelivery(dst []byte, d *Delivery) []byte {
	dst = append(dst, `{"k":"dlv","at":`...)
	dst = strconv.AppendInt(dst, int64(d.At), 10)
	dst = append(dst, `,"r":`...)
	dst = strconv.AppendInt(dst, int64(d.Reader), 10)
	dst = append(dst, `,"s":`...)
	dst = strconv.AppendUint(dst, d.Seq, 10)
	if d.Prev != 0 {
		dst = append(dst, `,"prev":`...)
		dst = strconv.AppendUint(dst, d.Prev, 10)
	}
	dst = append(dst, `,"t":`...)
	dst = appendString(dst, d.Topic)
	dst = append(dst, `,"id":`...)
	dst = strconv.AppendUint(dst, d.ID, 10)
	if d.Time != 0 {
		dst = append(dst, `,"time":`...)
		dst = strconv.AppendInt(dst, d.Time, 10)
	}
	if d.Disk {
		dst = append(dst, `,"disk":true`...)
	}
	return append(dst, "}\n"...)
}

// appendString appends a JSON string.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c >= 0x7f {
			quoted, _ := json.Marshal(s) // a string has no error
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}
