package wire

import (
	"io"

	"github.com/cantus-bus/cantus/internal/record"
)

// STUBS: the contract of this package; the owner replaces this file by real ones.
//
// Frame (little-endian):
//
//	 0 u32 size    bytes of the frame, header included; 24 <= size <= MaxFrame
//	 4 u8 magic 0xCA   5 u8 type   6 u16 flags (0)
//	 8 u32 id      subscription or request that the frame speaks of, 0 if none
//	12 u32 crc32c of bytes 16 to end, then of 0 to 12
//	16 body
//
// After HELLO and WELCOME both sides speak the version agreed there.

const (
	HeaderSize = 16
	MaxFrame   = record.MaxBatchBytes + 64<<10
	Version    = 1
)

type Type uint8

const (
	THello Type = 1 + iota
	TWelcome
	TTopology       // server: members or leader changed
	TDefineTopics   // client: aliases for publishing
	TOpenProducer   // client
	TProducerOpened // server
	TPublish        // client: body is exactly a record.Batch with alias topic numbers; id = request, increasing
	TAck            // server; acks of one connection may come out of order
	TSubscribe      // client; id = subscription chosen by the client
	TSubscribed     // server
	TCredit         // client
	TTopicNames     // server: ids used by following DATA frames
	TData           // server: u64 prev, u32 count, u32 0, then records; id = subscription
	TProgress       // server
	TCaughtUp       // server
	TUnsubscribe    // client
	TEnded          // server: a subscription ended, with code
	TError          // both: the connection (id 0) or a request failed; id 0 closes
	TPing           // both
	TPong
	TGoodbye // server: shutting down or stepping aside; finish and go elsewhere
	TQuery   // client: request of a small JSON answer (head, leader, last seq): reserved for later
	TAnswer
)

func (t Type) String() string { panic("stub") }

// Code of an error that travels; 0..63 are fsm codes.
type Code uint16

const (
	CodeProtocol Code = 64 + iota // malformed frame, unknown type, frame out of turn
	CodeVersion                   // no common version
	CodeWrongCluster
	CodeTooLarge
	CodeBadTopic
	CodeBadFilter
	CodeTooManyFilters
	CodeTooManySubscriptions
	CodeGone   // wanted seq is not kept any more: detail = oldest
	CodeNotYet // min_seq not reached within the wait: detail = applied
	CodeSlow   // client let the connection stall past the write timeout
	CodeInternal
	CodeTooManyConnections
	CodeShutdown
)

// Error is a coded error as it travels; errors.As.
type Error struct {
	Code    Code
	Detail  uint64
	Message string
}

func (e *Error) Error() string { panic("stub") }

type Role uint8

const (
	RoleClient Role = iota
	RolePeer        // a node that forwards; its publishes are never forwarded again
)

type Hello struct {
	MinVersion, MaxVersion uint16
	Role                   Role
	ClusterID              string // "" any
	Client                 string // name and version, for people
	HeartbeatMS            uint32
	Credentials            []byte
}

type NodeInfo struct {
	ID         string
	ClientAddr string
	HTTPAddr   string
	Voter      bool
	Alive      bool
}

type Topology struct {
	ClusterID string
	LeaderID  string // "" unknown
	Term      uint64
	Nodes     []NodeInfo
}

type Welcome struct {
	Version           uint16
	NodeID            string
	HeartbeatMS       uint32
	MaxFrame          uint32
	MaxInflight       uint32 // bytes of unacknowledged publishes per connection before the server stops reading
	FirstSeq, LastSeq uint64
	Topology          Topology
}

type DefineTopics struct {
	FirstAlias uint32 // aliases are dense, from 0
	Names      []string
}

type OpenProducer struct{ ID record.ProducerID }

type ProducerOpened struct {
	Code       Code
	Detail     uint64
	Epoch      uint32
	LastNumber uint64
	LastSeq    uint64
}

type Ack struct {
	Code     Code
	Index    uint16
	Count    uint32
	FirstSeq uint64
	Time     int64
	Detail   uint64
}

type StartKind uint8

const (
	StartFirst StartKind = iota // oldest kept
	StartNow                    // after the head at opening
	StartSeq                    // first message with seq >= Value
	StartTime                   // first message with time >= Value (unix ns)
	StartAgo                    // Value = nanoseconds before the node's newest message time
)

type Subscribe struct {
	Filters []string
	Start   StartKind
	Value   uint64
	Prev    uint64 // last matching seq the client has: prev of the first DATA frame
	MinSeq  uint64
	WaitMS  uint32 // for MinSeq
	Credit  uint64 // bytes of DATA the client is ready for
}

type Subscribed struct {
	Next, Head, Oldest uint64 // first seq that may come; head at opening; oldest kept
}

type Seq struct{ Seq uint64 } // Progress (safe to resume after it), CaughtUp (the head at opening)

type TopicName struct {
	ID   uint32
	Name string
}

type Data struct {
	Prev  uint64 // matching seq delivered before this frame's first record, 0 if none since opening (or Subscribe.Prev)
	Count uint32
	Run   []byte // view
}

// Frame is one frame as read: Body is valid until its buffer is released.
type Frame struct {
	Type Type
	ID   uint32
	Body []byte
}

// Reader reads frames from a buffered connection. With Take, the caller keeps the body's buffer (for publishes) and gives it back with Free.
type Reader struct{}

func NewReader(r io.Reader, maxFrame int) *Reader { panic("stub") }
func (r *Reader) Next() (Frame, error)            { panic("stub") } // body valid until the next call, unless taken
func (r *Reader) Take() *Buffer                   { panic("stub") } // the buffer behind the last frame

// Buffer is a pooled, 8-aligned byte buffer.
type Buffer struct{ B []byte }

func (b *Buffer) Free() { panic("stub") }

// Append<T> adds a whole frame (header, body, crc) to dst. Decode<T> parses a body strictly.
func AppendHello(dst []byte, h *Hello) []byte                             { panic("stub") }
func DecodeHello(b []byte) (Hello, error)                                 { panic("stub") }
func AppendWelcome(dst []byte, w *Welcome) []byte                         { panic("stub") }
func DecodeWelcome(b []byte) (Welcome, error)                             { panic("stub") }
func AppendTopology(dst []byte, t *Topology) []byte                       { panic("stub") }
func DecodeTopology(b []byte) (Topology, error)                           { panic("stub") }
func AppendDefineTopics(dst []byte, d *DefineTopics) []byte               { panic("stub") }
func DecodeDefineTopics(b []byte) (DefineTopics, error)                   { panic("stub") }
func AppendOpenProducer(dst []byte, id uint32, o OpenProducer) []byte     { panic("stub") }
func DecodeOpenProducer(b []byte) (OpenProducer, error)                   { panic("stub") }
func AppendProducerOpened(dst []byte, id uint32, o ProducerOpened) []byte { panic("stub") }
func DecodeProducerOpened(b []byte) (ProducerOpened, error)               { panic("stub") }
func AppendPublish(dst []byte, id uint32, b record.Batch) []byte          { panic("stub") }
func DecodePublish(b []byte) (record.Batch, error)                        { panic("stub") } // validates
func AppendAck(dst []byte, id uint32, a *Ack) []byte                      { panic("stub") }
func DecodeAck(b []byte) (Ack, error)                                     { panic("stub") }
func AppendSubscribe(dst []byte, id uint32, s *Subscribe) []byte          { panic("stub") }
func DecodeSubscribe(b []byte) (Subscribe, error)                         { panic("stub") }
func AppendSubscribed(dst []byte, id uint32, s *Subscribed) []byte        { panic("stub") }
func DecodeSubscribed(b []byte) (Subscribed, error)                       { panic("stub") }
func AppendCredit(dst []byte, id uint32, bytes uint64) []byte             { panic("stub") }
func DecodeCredit(b []byte) (uint64, error)                               { panic("stub") }
func AppendTopicNames(dst []byte, names []TopicName) []byte               { panic("stub") }
func DecodeTopicNames(b []byte) ([]TopicName, error)                      { panic("stub") }

// AppendDataHeader adds frame header + prev/count for a run that the caller sends right after in parts (32 bytes, so the run stays 8-aligned).
func AppendDataHeader(dst []byte, id uint32, prev uint64, count uint32, parts [][]byte) []byte {
	panic("stub")
}
func DecodeData(b []byte) (Data, error)                          { panic("stub") } // checks the run's bounds
func AppendSeq(dst []byte, t Type, id uint32, seq uint64) []byte { panic("stub") } // Progress, CaughtUp
func DecodeSeq(b []byte) (uint64, error)                         { panic("stub") }
func AppendError(dst []byte, t Type, id uint32, e *Error) []byte { panic("stub") } // TError, TEnded
func DecodeError(b []byte) (Error, error)                        { panic("stub") }
func AppendEmpty(dst []byte, t Type, id uint32) []byte           { panic("stub") } // Ping, Pong, Unsubscribe, Goodbye
