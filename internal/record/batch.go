package record

import "math"

// A batch: what a publisher sends under one range of numbers (little-endian, a multiple of 8 bytes):
//
//	 0 u32 size          all of the batch, header included, <= MaxBatchBytes
//	 4 u32 count         records, >= 1
//	 8 [16]byte producer all zero: not idempotent; then epoch and number are 0 too
//	24 u32 epoch         >= 1 with a producer
//	28 u16 flags         bit 0: atomic, a batch that nobody may split; others 0
//	30 u16 preconditions how many, <= MaxPreconditions, only in an atomic batch
//	32 u64 number        of the first record, >= 1 with a producer; the others follow densely
//	40 u64 reserved      0 (tenant)
//	48 preconditions     {u32 topic, u32 0, u64 last seq of that topic; 0 = topic has none}...
//	.. records
const (
	batchCountAt         = 4
	batchProducerAt      = 8
	batchEpochAt         = 24
	batchFlagsAt         = 28
	batchPreconditionsAt = 30
	batchNumberAt        = 32
	batchReservedAt      = 40

	preconditionSize = 16

	flagAtomic = 1
)

// ProducerID names a producer; random. The zero value means a publisher without exactly-once.
type ProducerID [16]byte

// Precondition holds if Topic's last message has this seq when the batch is applied; 0: the topic has no message.
type Precondition struct {
	Topic   uint32
	LastSeq uint64
}

// BatchHeader is the fixed part of a batch.
type BatchHeader struct {
	Size, Count   uint32 // bytes with the header; records
	Producer      ProducerID
	Epoch         uint32
	Atomic        bool
	Preconditions int
	Number        uint64 // of the first record
}

// Batch is a view of a whole batch. Methods other than Validate may panic on bytes that were not validated.
type Batch []byte

// Header decodes the fixed part.
func (b Batch) Header() BatchHeader {
	return BatchHeader{
		Size:          le.Uint32(b),
		Count:         le.Uint32(b[batchCountAt:]),
		Producer:      ProducerID(b[batchProducerAt:batchEpochAt]),
		Epoch:         le.Uint32(b[batchEpochAt:]),
		Atomic:        le.Uint16(b[batchFlagsAt:])&flagAtomic != 0,
		Preconditions: b.preconditions(),
		Number:        le.Uint64(b[batchNumberAt:]),
	}
}

func (b Batch) preconditions() int { return int(le.Uint16(b[batchPreconditionsAt:])) }

// Precondition returns the i-th of Header().Preconditions.
func (b Batch) Precondition(i int) Precondition {
	p := b[BatchHeaderSize+i*preconditionSize:]
	return Precondition{Topic: le.Uint32(p), LastSeq: le.Uint64(p[8:])}
}

// SetPreconditionTopic changes the topic number of the i-th precondition.
func (b Batch) SetPreconditionTopic(i int, topic uint32) {
	le.PutUint32(b[BatchHeaderSize+i*preconditionSize:], topic)
}

// SetEpoch replaces the producer's epoch: one that had to open its id again sends what is not settled under the new one.
func (b Batch) SetEpoch(epoch uint32) { le.PutUint32(b[batchEpochAt:], epoch) }

// Records is a view of the run of the batch's records.
func (b Batch) Records() []byte { return b[BatchHeaderSize+b.preconditions()*preconditionSize:] }

// Validate checks everything that can be checked without knowing topics and producers: that b is exactly one batch, and
// every rule of the drawing above and of its records. Topic numbers are the caller's to check.
func (b Batch) Validate() error {
	off, rule := b.validate(math.MaxUint32)
	return corrupt("batch", off, rule)
}

// validate returns the broken rule and where; numbers of new topics must be below newTopics.
func (b Batch) validate(newTopics uint32) (int, string) {
	if off, rule := b.checkFrame(); rule != "" {
		return off, rule
	}
	if off, rule := b.checkProducer(); rule != "" {
		return off, rule
	}
	if off, rule := b.checkPreconditions(newTopics); rule != "" {
		return off, rule
	}
	run := b.Records()
	off, rule := validateUnapplied(run, int(le.Uint32(b[batchCountAt:])), newTopics)
	return len(b) - len(run) + off, rule
}

// checkFrame checks the sizes, the flags and the reserved bytes.
func (b Batch) checkFrame() (int, string) {
	if len(b) < BatchHeaderSize {
		return 0, "batch header is cut short"
	}
	size := le.Uint32(b)
	switch {
	case size > MaxBatchBytes:
		return 0, "batch is " + overLimit
	case size%Align != 0:
		return 0, "batch size is not a multiple of 8"
	case int(size) != len(b):
		return 0, "batch size differs from the bytes that are there"
	case le.Uint32(b[batchCountAt:]) == 0:
		return batchCountAt, "batch has no records"
	case le.Uint16(b[batchFlagsAt:])&^flagAtomic != 0:
		return batchFlagsAt, "unknown batch flags"
	case le.Uint64(b[batchReservedAt:]) != 0:
		return batchReservedAt, "reserved bytes of the batch are not zero"
	}
	return 0, ""
}

// checkProducer checks that producer, epoch and number fit together.
func (b Batch) checkProducer() (int, string) {
	epoch, number := le.Uint32(b[batchEpochAt:]), le.Uint64(b[batchNumberAt:])
	if le.Uint64(b[batchProducerAt:])|le.Uint64(b[batchProducerAt+8:]) == 0 {
		switch {
		case epoch != 0:
			return batchEpochAt, "epoch without a producer"
		case number != 0:
			return batchNumberAt, "number without a producer"
		}
		return 0, ""
	}
	switch {
	case epoch == 0:
		return batchEpochAt, "epoch of a producer is 0"
	case number == 0:
		return batchNumberAt, "number of a producer's record is 0"
	case number > math.MaxUint64-uint64(le.Uint32(b[batchCountAt:])):
		return batchNumberAt, "numbers of the batch overflow"
	}
	return 0, ""
}

func (b Batch) checkPreconditions(newTopics uint32) (int, string) {
	n := b.preconditions()
	switch {
	case n == 0:
		return 0, ""
	case n > MaxPreconditions:
		return batchPreconditionsAt, "number of preconditions is " + overLimit
	case le.Uint16(b[batchFlagsAt:])&flagAtomic == 0:
		return batchPreconditionsAt, "preconditions in a batch that is not atomic"
	case BatchHeaderSize+n*preconditionSize > len(b):
		return batchPreconditionsAt, "preconditions are longer than the batch"
	}
	for i := range n {
		off := BatchHeaderSize + i*preconditionSize
		switch {
		case le.Uint32(b[off+4:]) != 0:
			return off + 4, "reserved bytes of a precondition are not zero"
		case !topicKnown(le.Uint32(b[off:]), newTopics):
			return off, "topic number of a precondition is not in the entry's table of new topics"
		}
	}
	return 0, ""
}
