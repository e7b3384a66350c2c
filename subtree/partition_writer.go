package subtree

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cantus-bus/cantus/internal/topic"
)

// partitionWriter writes one partition after the other into a file: begin, add..., finish. It reuses its memory.
type partitionWriter struct {
	w      *fileWriter
	table  *topic.Table
	spill  spill
	codec  blockCodec
	node   topic.ID
	plan   Splitter // nil: one store
	stores []sectionWriter

	byTopic map[topic.ID]int32
	topics  []topicWriter
	recent  int32 // index of the topic of the last record; -1: none
	scratch []byte
}

// topicWriter gathers a directory's entry.
//
// Invariant: runs holds the runs that end before block runFirst-1, encoded; runFirst to runLast is the last one.
type topicWriter struct {
	topic             topic.ID
	store             uint32
	messages, bytes   uint64
	last              uint64
	runFirst, runLast uint32
	runEnd            uint32 // end of the last encoded run: the block after it
	runCount          uint32
	runs              []byte
}

func newPartitionWriter(w *fileWriter, t *topic.Table, spillPath string, spillLimit int) *partitionWriter {
	return &partitionWriter{
		w: w, table: t, spill: spill{fs: w.fs, path: spillPath, limit: spillLimit}, byTopic: make(map[topic.ID]int32),
	}
}

// begin starts a partition. Nodes ascend.
func (p *partitionWriter) begin(node topic.ID, plan Splitter) error {
	n := 1
	if plan != nil {
		n = plan.Stores()
	}
	if n < 1 {
		return fmt.Errorf("the plan of partition %q has no stores", p.table.Name(node))
	}
	p.node, p.plan, p.recent = node, plan, -1
	p.stores = slices.Grow(p.stores[:0], n)[:n]
	for i := range p.stores {
		p.stores[i].reset()
	}
	clear(p.byTopic)
	p.topics = p.topics[:0]
	p.spill.reset()
	return nil
}

// add takes one padded record.
func (p *partitionWriter) add(rec []byte) error {
	id, seq := topicOf(rec), seqOf(rec)
	t, err := p.topic(id)
	if err != nil {
		return err
	}
	s := &p.stores[t.store]
	if !s.fits(len(rec)) {
		if err := p.cut(s); err != nil {
			return err
		}
	}
	t.saw(uint32(len(s.rows)))
	t.messages++
	t.bytes += uint64(len(rec))
	t.last = seq
	s.add(rec, seq)
	return nil
}

// topic finds or makes the entry of a topic, and with it the store that it belongs to.
func (p *partitionWriter) topic(id topic.ID) (*topicWriter, error) {
	if p.recent >= 0 && p.topics[p.recent].topic == id {
		return &p.topics[p.recent], nil
	}
	i, ok := p.byTopic[id]
	if !ok {
		store := 0
		if p.plan != nil {
			store = p.plan.StoreOf(p.table.Name(id))
		}
		if store < 0 || store >= len(p.stores) {
			return nil, fmt.Errorf("the plan of partition %q puts topic %q into store %d of %d", p.table.Name(p.node), p.table.Name(id), store, len(p.stores))
		}
		i = int32(len(p.topics))
		p.byTopic[id] = i
		p.topics = append(p.topics, topicWriter{topic: id, store: uint32(store)})
		p.w.sawTopic(id)
	}
	p.recent = i
	return &p.topics[i], nil
}

// saw notes that a block of the topic's section holds it. Blocks ascend.
func (t *topicWriter) saw(block uint32) {
	switch {
	case t.messages == 0:
		t.runFirst, t.runLast = block, block
	case block <= t.runLast+1:
		t.runLast = block
	default:
		t.runs = t.appendRun(t.runs)
		t.runCount++
		t.runEnd = t.runLast + 1
		t.runFirst, t.runLast = block, block
	}
}

// appendRun encodes the open run.
func (t *topicWriter) appendRun(b []byte) []byte {
	word := uint64(t.runFirst-t.runEnd) << 1
	if t.runLast == t.runFirst {
		return binary.AppendUvarint(b, word)
	}
	b = binary.AppendUvarint(b, word|1)
	return binary.AppendUvarint(b, uint64(t.runLast-t.runFirst-1))
}

// cut writes the open block of a store, or spills it when the partition has several stores.
func (p *partitionWriter) cut(s *sectionWriter) error {
	stored := s.cut(&p.codec)
	row := &s.rows[len(s.rows)-1]
	row.offset = p.w.off
	var err error
	if len(p.stores) == 1 {
		err = p.w.write(stored)
	} else {
		row.offset, err = p.spill.put(stored)
	}
	s.drop()
	return err
}

// finish writes what is left of the partition. A partition without messages leaves no trace.
func (p *partitionWriter) finish() error {
	if len(p.topics) == 0 {
		return nil
	}
	part := partition{node: p.node, topics: uint32(len(p.topics))}
	places := make([]int, len(p.stores)) // place of each store's section
	for i := range p.stores {
		s := &p.stores[i]
		if s.messages == 0 {
			continue
		}
		if err := p.cut(s); err != nil {
			return err
		}
		row := s.row(uint32(i))
		if err := p.unspill(s, &row); err != nil {
			return err
		}
		places[i] = len(part.sections)
		part.sections = append(part.sections, row)
	}
	if err := p.writeTables(&part); err != nil {
		return err
	}
	if err := p.writeDirectory(&part, places); err != nil {
		return err
	}
	p.w.add(part)
	return nil
}

// unspill brings the blocks of a section into the file, if they are not there already.
func (p *partitionWriter) unspill(s *sectionWriter, sec *section) error {
	for i := range s.rows {
		row := &s.rows[i]
		if len(p.stores) > 1 {
			b, err := p.spill.get(row.offset, row.stored)
			if err != nil {
				return err
			}
			row.offset = p.w.off
			if err := p.w.write(b); err != nil {
				return err
			}
		}
		sec.dataSize += uint64(row.stored)
	}
	sec.data = s.rows[0].offset
	return nil
}

func (p *partitionWriter) writeTables(part *partition) error {
	for i := range part.sections {
		sec := &part.sections[i]
		sec.table = p.w.off
		p.scratch = appendTable(p.scratch[:0], p.stores[sec.store].rows)
		if err := p.w.write(p.scratch); err != nil {
			return err
		}
	}
	return nil
}

func (p *partitionWriter) writeDirectory(part *partition, places []int) error {
	slices.SortFunc(p.topics, func(a, b topicWriter) int { return cmp.Compare(a.topic, b.topic) })
	part.directory = p.w.off
	var table []byte
	for rest := p.topics; len(rest) > 0; {
		page, row := p.page(rest, part, places)
		row.offset = p.w.off
		rest = rest[row.entries:]
		if err := p.w.write(page); err != nil {
			return err
		}
		table = row.append(table)
		part.pages++
	}
	part.size = p.w.off - part.directory
	part.tableCRC = checksum(table)
	return p.w.write(table)
}

// page encodes as many topics as go into one page.
func (p *partitionWriter) page(topics []topicWriter, part *partition, places []int) ([]byte, pageRow) {
	b, before := p.scratch[:0], topics[0].topic
	row := pageRow{first: before}
	for i := range topics {
		t := &topics[i]
		place := places[t.store]
		b = binary.AppendUvarint(b, uint64(t.topic-before))
		b = binary.AppendUvarint(b, uint64(place))
		b = binary.AppendUvarint(b, t.messages)
		b = binary.AppendUvarint(b, t.bytes)
		b = binary.AppendUvarint(b, t.last-part.sections[place].first)
		b = binary.AppendUvarint(b, uint64(t.runCount)+1)
		b = append(b, t.runs...)
		b = t.appendRun(b)
		before = t.topic
		row.entries++
		if len(b) >= directoryPage {
			break
		}
	}
	p.scratch = b
	row.size, row.crc = uint32(len(b)), checksum(b)
	return b, row
}

// close removes what a partition that was not finished has left.
func (p *partitionWriter) close() { p.spill.close() }
