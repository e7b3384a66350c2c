package record

// STUBS: the contract of this package; the owner replaces this file by real ones.
//
// Record (little-endian, starts at a multiple of 8, padded with zeros to the next):
//
//	 0 u32 size     bits 0-25 bytes of the record without padding; bit 31: headers follow; others 0
//	 4 u32 topic    number of the topic in its context, see below
//	 8 u64 seq      0 until applied
//	16 i64 time     unix nanoseconds, 0 until applied
//	24 [u16 n, n bytes of headers: {u8 key length, u16 value length, key, value}...] only when bit 31 is set
//	.. payload
//
// The topic number is, on the way from a publisher, an alias of its connection; in an entry, the id of topic.Table if the
// proposer's table had it (ids of applied topics are the same everywhere), else NewTopic|index into the entry's table of new
// names; in ring, on disk and towards readers, the id.
//
// Batch: what a publisher sends under one number range.
//
//	 0 u32 size          all of the batch, header included, a multiple of 8
//	 4 u32 count         records, >= 1
//	 8 [16]byte producer all zero: not idempotent
//	24 u32 epoch
//	28 u16 flags         1: atomic (a batch that must not be split by anybody; needed for preconditions)
//	30 u16 preconditions count, <= 64
//	32 u64 number        of the first record; the others follow densely; numbers start at 1
//	40 u64 reserved      0 (tenant)
//	48 preconditions     {u32 topic, u32 0, u64 last seq of that topic; 0 = topic has none}
//	.. records
//
// Entry: what the raft log holds.
//
//	 0 u32 magic "CNTE"   4 u8 version 1   5 u8 kind   6 u8 codec (0 none 1 s2 2 lz4 3 zstd)   7 u8 0
//	 8 u32 crc32c of bytes 12 to end
//	12 u32 raw body size (before compression)
//	16 i64 time proposed   24 u64 proposer (random per leadership)   32 u64 proposal number   40 u64 reserved (tenant)
//	48 body
//
// Body of KindPublish: u32 count of new topics, u32 bytes of the table (header included, multiple of 8); {u16 length, name}...; zeros; then batches.

const (
	Align           = 8
	HeaderSize      = 24
	BatchHeaderSize = 48
	EntryHeaderSize = 48
	MaxPayload      = 1 << 20
	MaxHeaderBytes  = 16 << 10
	MaxBatchBytes   = MaxPayload + 64<<10 // one batch, header included
	MaxEntryBody    = 256 << 10           // a single larger batch travels alone
	NewTopic        = 1 << 31
)

type ProducerID [16]byte

type Header struct{ Key, Value string }

// Record is a view of one record's bytes without padding.
type Record []byte

func (r Record) Topic() uint32     { panic("stub") }
func (r Record) Seq() uint64       { panic("stub") }
func (r Record) Time() int64       { panic("stub") }
func (r Record) Payload() []byte   { panic("stub") }
func (r Record) HasHeaders() bool  { panic("stub") }
func (r Record) Headers() []Header { panic("stub") } // allocates
func (r Record) BodyBytes() int    { panic("stub") } // payload + headers: what volumes count

// PaddedSize of a record with this payload and header block, to plan buffers.
func PaddedSize(headers []Header, payload int) int { panic("stub") }

func AppendRecord(dst []byte, topic uint32, headers []Header, payload []byte) ([]byte, error) {
	panic("stub")
}

// Next takes the first record off a run. A run is records back to back, each padded.
func Next(run []byte) (r Record, rest []byte, err error) { panic("stub") }

// Scan is Next without checks, for runs that were validated: returns the padded size. Hot.
func Scan(run []byte) int { panic("stub") }

func SetTopic(rec []byte, topic uint32)                      { panic("stub") }
func Stamp(rec []byte, topic uint32, seq uint64, time int64) { panic("stub") }

// ValidateRun checks every record's bounds, padding, header block and payload limit, and that there are count of them.
func ValidateRun(run []byte, count int) error { panic("stub") }

type Precondition struct {
	Topic   uint32
	LastSeq uint64
}

type BatchHeader struct {
	Size, Count   uint32
	Producer      ProducerID
	Epoch         uint32
	Atomic        bool
	Preconditions int
	Number        uint64
}

// Batch is a view of a whole batch.
type Batch []byte

func (b Batch) Header() BatchHeader                      { panic("stub") }
func (b Batch) Precondition(i int) Precondition          { panic("stub") }
func (b Batch) SetPreconditionTopic(i int, topic uint32) { panic("stub") }
func (b Batch) Records() []byte                          { panic("stub") }
func (b Batch) Validate() error                          { panic("stub") }

// BatchBuilder lays out a batch in one buffer: Reset, Add..., Finish. Reusable.
type BatchBuilder struct{}

func (b *BatchBuilder) Reset(buf []byte, pre []Precondition)                     { panic("stub") }
func (b *BatchBuilder) Add(topic uint32, headers []Header, payload []byte) error { panic("stub") }
func (b *BatchBuilder) Count() int                                               { panic("stub") }
func (b *BatchBuilder) Size() int                                                { panic("stub") }
func (b *BatchBuilder) Finish(p ProducerID, epoch uint32, number uint64, atomic bool) Batch {
	panic("stub")
}

type Kind uint8

const (
	KindPublish         Kind = 1 + iota
	KindOpenProducer         // body: OpenProducer
	KindExpireProducers      // body: i64 cutoff time: producers last used before are forgotten
	KindConfig               // body: StreamConfig
	KindCheckpoint           // body: u64 id: every replica computes its digest here
)

type Codec uint8

const (
	CodecNone Codec = iota
	CodecS2
	CodecLZ4
	CodecZstd
)

type EntryHeader struct {
	Kind     Kind
	Codec    Codec
	RawSize  uint32
	Time     int64
	Proposer uint64
	Proposal uint64
}

// EntryBuilder gathers batches of a publish entry in reused buffers.
type EntryBuilder struct{}

func (e *EntryBuilder) Reset()                         { panic("stub") }
func (e *EntryBuilder) NewTopicRef(name string) uint32 { panic("stub") } // NewTopic|index, once per distinct name
func (e *EntryBuilder) AddBatch(b Batch) []byte        { panic("stub") } // copies; returns the copy so that the caller rewrites topic numbers in place
func (e *EntryBuilder) Size() int                      { panic("stub") } // of the body so far
func (e *EntryBuilder) Batches() int                   { panic("stub") }

// Finish returns a fresh slice for raft (raft keeps it), compressed if that saves at least 1/8.
func (e *EntryBuilder) Finish(c Codec, h EntryHeader) []byte { panic("stub") }

// EncodeEntry for the small kinds.
func EncodeEntry(h EntryHeader, body []byte) []byte { panic("stub") }

// PeekEntry reads the header only. DecodeEntry verifies the CRC and decompresses into scratch (grown if needed): the body
// aliases scratch, or data if it was not compressed: the caller must not change a body that aliases data.
func PeekEntry(data []byte) (EntryHeader, error) { panic("stub") }
func DecodeEntry(data, scratch []byte) (h EntryHeader, body, scratchOut []byte, err error) {
	panic("stub")
}

// PublishBody splits and fully validates the body of a KindPublish: names (views into body) and the run of batches.
func PublishBody(body []byte, names [][]byte) (namesOut [][]byte, batches []byte, err error) {
	panic("stub")
}

// NextBatch takes the first batch off validated batches.
func NextBatch(batches []byte) (b Batch, rest []byte) { panic("stub") }

// ErrCorrupt is the family of all bytes that fail a check.
var ErrCorrupt error
