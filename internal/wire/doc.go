// Package wire is the binary protocol between clients and nodes, and between nodes that forward: its frames, their
// encoding, and a reader of frames.
//
// It promises that a frame that Reader and a Decode function accepted is well-formed in every byte, that memory is bounded
// by a frame's limit and not by lengths read from the peer, and that reading frames does not allocate in steady state. It
// does not know sockets, sessions or who may send what when: that is the transport's and the client's. DESIGN.md beside
// this file is the specification of the protocol.
package wire

import (
	"encoding/binary"

	"github.com/cantus-bus/cantus/internal/record"
)

const (
	// Version of the protocol that this build speaks; HELLO names a range.
	Version = 1

	// HeaderSize is the fixed part of a frame, DataHeaderSize of a DATA frame up to its records, in bytes.
	HeaderSize     = 16
	DataHeaderSize = HeaderSize + 16
	// MaxFrame bounds a frame, header included, in bytes. A batch of the largest size fits.
	MaxFrame = record.MaxBatchBytes + 64<<10
	// MaxDataRun bounds the records of one DATA frame in bytes.
	MaxDataRun = MaxFrame - DataHeaderSize
	// MaxHandshakeFrame is enough for any HELLO: what a server accepts before it knows its peer, in bytes.
	MaxHandshakeFrame = 8 << 10

	// MaxString bounds node ids, cluster ids, addresses and a client's name, in bytes.
	MaxString = 512
	// MaxCredentials bounds the credentials in HELLO, in bytes.
	MaxCredentials = 4 << 10
	// MaxMessage bounds the text of an error, in bytes; longer ones are cut when encoded.
	MaxMessage = 1024
	// MaxNodes bounds the nodes of a topology; more are left out when encoded.
	MaxNodes = 512
	// MaxFilters bounds the filters of a subscription or a query, and the messages of an answer.
	MaxFilters = 1024
	// MaxFilterBytes bounds one filter: a topic and "/**".
	MaxFilterBytes = record.MaxTopicBytes + 3
	// MaxNamesPerFrame bounds the names of a DEFINE_TOPICS or TOPIC_NAMES frame: as many of the longest fit into MaxFrame.
	MaxNamesPerFrame = 2048
)

var le = binary.LittleEndian
