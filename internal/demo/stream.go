package demo

import (
	"bytes"
	"fmt"

	"github.com/cantus-bus/cantus/internal/dataset"
)

const (
	idDigits   = 16
	minPayload = idDigits + 16
	maxPayload = 256
)

// stream is what is published: the sample over and over. Message number id, from 1, has the topic of row (id-1) modulo
// the rows and a payload that begins with the id, so that a reader can tell from a message alone whether it is genuine.
type stream struct {
	rows []dataset.Row
}

func openStream() (*stream, error) {
	r, err := dataset.OpenSample()
	if err != nil {
		return nil, err
	}
	rows, err := dataset.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return &stream{rows: rows}, nil
}

func (s *stream) row(id uint64) int      { return int((id - 1) % uint64(len(s.rows))) }
func (s *stream) topic(id uint64) []byte { return s.rows[s.row(id)].Topic }
func (s *stream) payloadSize(id uint64) int {
	return min(max(s.rows[s.row(id)].Bytes, minPayload), maxPayload)
}
func (s *stream) genuine(id uint64, topic string, payload, scratch []byte) ([]byte, bool) {
	if string(s.topic(id)) != topic {
		return scratch, false
	}
	scratch = s.appendPayload(scratch[:0], id)
	return scratch, bytes.Equal(scratch, payload)
}

// appendPayload adds the payload of message id.
func (s *stream) appendPayload(dst []byte, id uint64) []byte {
	dst = fmt.Appendf(dst, "%0*x", idDigits, id)
	return dataset.Text.AppendPayload(dst, id, s.payloadSize(id)-idDigits)
}

// parseID reads the id off a payload; 0 is none.
func parseID(payload []byte) (id uint64) {
	if len(payload) < idDigits {
		return 0
	}
	for _, c := range payload[:idDigits] {
		switch {
		case c >= '0' && c <= '9':
			id = id<<4 | uint64(c-'0')
		case c >= 'a' && c <= 'f':
			id = id<<4 | uint64(c-'a'+10)
		default:
			return 0
		}
	}
	return id
}

// meanBytes is about what a message occupies in memory, header and topic number included.
func (s *stream) meanBytes() int {
	total := 0
	for id := uint64(1); id <= uint64(len(s.rows)); id++ {
		total += s.payloadSize(id) + 32
	}
	return total / len(s.rows)
}

// matching says for each row whether filters want it.
func (s *stream) matching(filters []string) []bool {
	list := make([]bool, len(s.rows))
	for i, row := range s.rows {
		list[i] = dataset.Matches(filters, string(row.Topic))
	}
	return list
}
