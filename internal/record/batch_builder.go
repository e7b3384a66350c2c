package record

import "fmt"

// BatchBuilder lays out a batch in one buffer: Reset, Add..., Finish. Reusable; not for several goroutines at once.
type BatchBuilder struct {
	buf   []byte // header, preconditions and the records so far; a multiple of Align
	pre   int    // preconditions in buf
	count int    // records in buf
}

// Reset begins a batch in buf's memory, which the builder owns until Finish; buf may be nil and grows as needed. More than
// MaxPreconditions make every Add fail.
func (b *BatchBuilder) Reset(buf []byte, pre []Precondition) {
	var head [BatchHeaderSize]byte
	b.buf = append(buf[:0], head[:]...)
	b.pre, b.count = len(pre), 0
	for _, p := range pre {
		b.buf = le.AppendUint64(b.buf, uint64(p.Topic))
		b.buf = le.AppendUint64(b.buf, p.LastSeq)
	}
}

// Add lays out one message. Errors leave the batch as it was: ErrBatchFull if it does not fit any more, ErrTooLarge or
// ErrBadHeader if no batch could take it.
func (b *BatchBuilder) Add(topic uint32, headers []Header, payload []byte) error {
	if b.pre > MaxPreconditions {
		return fmt.Errorf("record: add to batch: %d preconditions: %w of %d", b.pre, ErrTooLarge, MaxPreconditions)
	}
	if b.count > 0 && len(b.buf)+PaddedSize(headers, len(payload)) > MaxBatchBytes {
		return fmt.Errorf("record: add to batch of %d bytes: %w at %d", len(b.buf), ErrBatchFull, MaxBatchBytes)
	}
	buf, err := AppendRecord(b.buf, topic, headers, payload)
	if err != nil {
		return err
	}
	b.buf = buf
	b.count++
	return nil
}

// Count is how many messages were added, Size how many bytes the batch has.
func (b *BatchBuilder) Count() int { return b.count }

// Size is how many bytes the batch has so far, header included.
func (b *BatchBuilder) Size() int { return len(b.buf) }

// Finish writes the header and hands the buffer to the caller; Reset begins the next. It returns nil if nothing was added. For
// the zero producer epoch and number are written as 0. Preconditions make the batch atomic whatever atomic says.
func (b *BatchBuilder) Finish(p ProducerID, epoch uint32, number uint64, atomic bool) Batch {
	out := b.buf
	b.buf = nil
	if b.count == 0 {
		return nil
	}
	if p == (ProducerID{}) {
		epoch, number = 0, 0
	}
	var flags uint16
	if atomic || b.pre > 0 {
		flags = flagAtomic
	}
	le.PutUint32(out, uint32(len(out)))
	le.PutUint32(out[batchCountAt:], uint32(b.count))
	copy(out[batchProducerAt:], p[:])
	le.PutUint32(out[batchEpochAt:], epoch)
	le.PutUint16(out[batchFlagsAt:], flags)
	le.PutUint16(out[batchPreconditionsAt:], uint16(b.pre))
	le.PutUint64(out[batchNumberAt:], number)
	return out
}
