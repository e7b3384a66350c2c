package cluster

import (
	"bufio"
	"fmt"
	"io"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/faults"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/subtree"
)

// warmBytes is how many bytes of records a restored stream brings from history into the tip at most; half of the ring is another limit.
const warmBytes = 128 << 20

// restore makes an empty stream, which has not been started, what it was when the state file of m was written, and the tip as full as
// is cheap: the newest windows from history, and the tail. r must have been checked against m's hash. After an error the stream is
// of no use.
func (s *Stream) restore(m *snapManifest, r io.Reader) error {
	b := bufio.NewReaderSize(r, stateBuffer)
	if err := readStateHead(b); err != nil {
		return err
	}
	if err := s.machine.Restore(b); err != nil {
		return fmt.Errorf("restore the state machine: %w", err)
	}
	w := newestSealed(s.machine)
	if seq, first := s.machine.LastSeq(), s.machine.FirstSeq(); seq != m.seq || first != m.firstSeq || w.Number != m.window || w.LastSeq != m.windowSeq {
		return fmt.Errorf("%w: its state has seqs %d to %d and window %d up to seq %d, its manifest %d to %d and window %d up to %d",
			errSnapshotFormat, first, seq, w.Number, w.LastSeq, m.firstSeq, m.seq, m.window, m.windowSeq)
	}
	faults.Pass(faults.Restore)
	s.warm(s.warmFrom(w.LastSeq), w.LastSeq)
	s.tip.SetSealed(w.LastSeq)
	if err := readTail(b, w.LastSeq+1, m.seq, s.tip.ChunkBytes(), s.appendRun); err != nil {
		return err
	}
	s.tip.Publish()
	return nil
}

func newestSealed(m *fsm.Machine) (w fsm.Window) {
	if windows := m.Windows(); len(windows) > 0 {
		w = windows[len(windows)-1]
	}
	return w
}

// appendRun puts applied records into the tip.
func (s *Stream) appendRun(run []byte, count int, seq uint64, time int64) error {
	s.tip.Append(run, count, nil, seq, time)
	return nil
}

// warmFrom is where the whole windows up to seq last begin that are to be brought into the tip; last+1 if none is.
func (s *Stream) warmFrom(last uint64) uint64 {
	from := last + 1
	if s.history == nil {
		return from
	}
	kept, _ := s.history.store.Bounds()
	room := min(warmBytes, uint64(s.tip.Stats().RingBytes)/2)
	windows := s.machine.Windows()
	for i := len(windows) - 1; i >= 0 && windows[i].Bytes <= room && windows[i].FirstSeq >= kept; i-- {
		room -= windows[i].Bytes
		from = windows[i].FirstSeq
	}
	return from
}

// warm makes the tip go on behind seq last, with the messages from seq from on out of history. If these cannot be read, it begins
// without: history serves them, or says why not.
func (s *Stream) warm(from, last uint64) {
	s.tip.Begin(from)
	if from > last {
		return
	}
	if err := s.copyHistory(from, last); err != nil {
		s.history.log.Warn("the tip begins empty: history could not be read", "from", from, "to", last, "error", err)
		s.tip.Begin(last + 1)
		return
	}
	s.tip.Publish()
}

func (s *Stream) copyHistory(from, last uint64) error {
	everything, err := topic.ParseFilters([]string{"**"})
	if err != nil {
		return err
	}
	c := s.history.store.NewCursor(topic.NewMatcher(s.table, everything), from)
	defer c.Close()
	var v subtree.View
	defer v.Release()
	next := from
	for next <= last {
		v.Release()
		if err := c.Read(&v, subtree.Limit{Bytes: tailBlockBytes, UpTo: last}); err != nil {
			return err
		}
		for _, part := range v.Parts {
			if next, err = splitRuns(part, next, s.tip.ChunkBytes(), s.appendRun); err != nil {
				return err
			}
		}
		if v.Count == 0 && c.Position() >= last && next <= last {
			return fmt.Errorf("history ended with seq %d", next-1)
		}
	}
	return nil
}
