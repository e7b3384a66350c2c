package cluster

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/tipstore"
)

// A snapshot's state file, s-<term>-<index>.state: the state machine, and the tail, which is the messages after the last sealed
// window. What is before the tail is in history. Numbers are little-endian.
//
//	 0 [8]byte magic  "CNTSSTAT"
//	 8 u32 version    1
//	12 u32 reserved   0
//	16 .. state       as fsm.State writes it; it knows its own end
//	.. u64 first seq  of the tail
//	.. u64 last seq   first-1 if the tail is empty
//	.. blocks         of the tail, in order:
//	     u32 bytes    of records, 1 to 64 MiB; 0 ends the list, and the file
//	     u32 crc      CRC-32C of the records
//	     .. records   whole, padded, with topic id, seq and time
const (
	stateMagic    = "CNTSSTAT"
	stateFormat   = 1
	stateHeadSize = 16
	// tailBlockBytes is what a block of the tail holds at most, unless one record is longer.
	tailBlockBytes = 1 << 20
	maxTailBlock   = 64 << 20
	stateBuffer    = 1 << 20
)

// streamState is a stream at one place of the log, on its way into a snapshot.
type streamState struct {
	stream *Stream
	state  *fsm.State
}

// capture takes the state of now. Apply's goroutine only.
func (s *Stream) capture() *streamState { return &streamState{s, s.machine.Capture()} }

// sealedSeq is the last seq of the last sealed window, 0 if there is none.
func (c *streamState) sealedSeq() uint64 {
	w, _ := c.state.Sealed()
	return w.LastSeq
}

// writeTo writes the state file. Any goroutine; while the stream goes on.
func (c *streamState) writeTo(ctx context.Context, w io.Writer) error {
	b := bufio.NewWriterSize(w, stateBuffer)
	head := append(make([]byte, 0, stateHeadSize), stateMagic...)
	head = binary.LittleEndian.AppendUint32(head, stateFormat)
	if _, err := b.Write(binary.LittleEndian.AppendUint32(head, 0)); err != nil {
		return err
	}
	if _, err := c.state.WriteTo(b); err != nil {
		return err
	}
	if err := c.writeTail(ctx, b); err != nil {
		return err
	}
	return b.Flush()
}

// writeTail writes the messages from the last sealed window to the state's seq, wherever they are by now.
func (c *streamState) writeTail(ctx context.Context, w io.Writer) error {
	t := tailWriter{w: w}
	if err := t.bounds(c.sealedSeq()+1, c.state.Seq()); err != nil {
		return err
	}
	everything, err := topic.ParseFilters([]string{"**"})
	if err != nil {
		return err
	}
	r, err := c.stream.OpenReader(ReaderOptions{Filters: everything, Start: wire.StartSeq, Value: c.sealedSeq() + 1})
	if err != nil {
		return err
	}
	defer r.Close()
	var v tipstore.View
	defer v.Release()
	for r.Position() < c.state.Seq() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.Read(&v, tipstore.Limit{Bytes: tailBlockBytes, UpTo: c.state.Seq()}); err != nil {
			return err
		}
		if err := t.block(v.Parts); err != nil {
			return err
		}
	}
	return t.end()
}

// tailWriter writes a tail's bytes.
type tailWriter struct{ w io.Writer }

func (t *tailWriter) bounds(first, last uint64) error {
	_, err := t.w.Write(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, first), last))
	return err
}

func (t *tailWriter) block(parts [][]byte) error {
	size, sum := 0, uint32(0)
	for _, p := range parts {
		size, sum = size+len(p), crc32.Update(sum, castagnoli, p)
	}
	if size == 0 {
		return nil
	}
	head := binary.LittleEndian.AppendUint32(nil, uint32(size))
	if _, err := t.w.Write(binary.LittleEndian.AppendUint32(head, sum)); err != nil {
		return err
	}
	for _, p := range parts {
		if _, err := t.w.Write(p); err != nil {
			return err
		}
	}
	return nil
}

func (t *tailWriter) end() error {
	_, err := t.w.Write(make([]byte, 4))
	return err
}

// readStateHead checks the beginning of a state file.
func readStateHead(r io.Reader) error {
	var head [stateHeadSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return fmt.Errorf("%w: its state file has no head: %w", errSnapshotFormat, err)
	}
	if string(head[:8]) != stateMagic || binary.LittleEndian.Uint32(head[12:]) != 0 {
		return fmt.Errorf("%w: not a state file: wrong magic", errSnapshotFormat)
	}
	if v := binary.LittleEndian.Uint32(head[8:]); v != stateFormat {
		return fmt.Errorf("%w: its state file has version %d, this program knows %d: %w", errSnapshotFormat, v, stateFormat, errNewerVersion)
	}
	return nil
}

// readTail reads a tail to the end of r. It calls run for runs of records of equal time, in order, each at most maxRun bytes unless it
// is one record; the bytes are valid during the call.
func readTail(r io.Reader, first, last uint64, maxRun int, run func(run []byte, count int, seq uint64, time int64) error) error {
	le := binary.LittleEndian
	var head [16]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return fmt.Errorf("%w: the tail: %w", errSnapshotFormat, err)
	}
	if le.Uint64(head[:]) != first || le.Uint64(head[8:]) != last {
		return fmt.Errorf("%w: the tail has seqs %d to %d, the state %d to %d", errSnapshotFormat, le.Uint64(head[:]), le.Uint64(head[8:]), first, last)
	}
	next := first
	for {
		b, err := readTailBlock(r)
		if err != nil {
			return fmt.Errorf("%w: the tail at seq %d: %w", errSnapshotFormat, next, err)
		}
		if len(b) == 0 {
			break
		}
		if next, err = splitRuns(b, next, maxRun, run); err != nil {
			return err
		}
	}
	if next != last+1 {
		return fmt.Errorf("%w: the tail ends with seq %d, not %d", errSnapshotFormat, next-1, last)
	}
	if n, err := io.ReadFull(r, head[:1]); n != 0 || err != io.EOF {
		return fmt.Errorf("%w: bytes follow on the tail", errSnapshotFormat)
	}
	return nil
}

// readTailBlock reads one block; none is the end.
func readTailBlock(r io.Reader) ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:4]); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size == 0 {
		return nil, nil
	}
	if size > maxTailBlock {
		return nil, fmt.Errorf("a block of %d bytes", size)
	}
	if _, err := io.ReadFull(r, head[4:]); err != nil {
		return nil, err
	}
	// Not made at once: a wrong size must not cost more memory than there are bytes.
	var b []byte
	for uint32(len(b)) < size {
		n := min(int(size)-len(b), stateBuffer)
		b = append(b, make([]byte, n)...)
		if _, err := io.ReadFull(r, b[len(b)-n:]); err != nil {
			return nil, err
		}
	}
	if crcOf(b) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, errors.New("wrong checksum of a block")
	}
	return b, nil
}

// splitRuns calls run for runs of records of equal time and at most maxRun bytes; the first record must have seq next. It returns the
// seq that follows.
func splitRuns(b []byte, next uint64, maxRun int, run func(run []byte, count int, seq uint64, time int64) error) (uint64, error) {
	for len(b) > 0 {
		end, count := 0, uint64(0)
		var time int64
		for end < len(b) {
			rec, rest, err := record.Next(b[end:])
			if err != nil || rec.Seq() != next+count {
				return next, fmt.Errorf("%w: the record of seq %d: %v", errSnapshotFormat, next+count, err)
			}
			size := len(b) - end - len(rest)
			if end > 0 && (rec.Time() != time || end+size > maxRun) {
				break
			}
			time, end, count = rec.Time(), end+size, count+1
		}
		if err := run(b[:end], int(count), next, time); err != nil {
			return next, err
		}
		b, next = b[end:], next+count
	}
	return next, nil
}
