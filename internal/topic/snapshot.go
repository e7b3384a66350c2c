package topic

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
)

// Snapshot is a table as it was at one moment. Names and the tree are shared with the table, which never changes what it has; only what
// moves was copied.
type Snapshot struct {
	table         *Table
	nodes, topics uint32
	partitions    uint32
	counts        []counts // by id. Invariant: len = nodes
	topicBits     []uint64 // bit id%64 of word id/64: the node is a topic
	names         hash.Hash
	namesUpTo     uint32 // names is over the nodes [1, namesUpTo)
}

type counts struct{ messages, bytes, lastSeq uint64 }

// Capture copies the moving part of the table: 24 bytes a node. Writer only; what is returned is any goroutine's.
func (t *Table) Capture() *Snapshot {
	n := t.nodeCount.Load()
	s := &Snapshot{
		table: t, nodes: n, topics: t.topicCount.Load(), partitions: t.partCount.Load(),
		counts: make([]counts, n), topicBits: make([]uint64, (n+63)/64),
	}
	for at := uint32(0); at < n; at += chunkRows {
		rows := t.rows.dir[at>>chunkBits].Load()
		s.copyRows(rows[:min(chunkRows, n-at)], at)
	}
	s.names, s.namesUpTo = t.cloneNames()
	return s
}

// copyRows copies the rows of one chunk, the first of which is node at.
func (s *Snapshot) copyRows(rows []row, at uint32) {
	to := s.counts[at:][:len(rows)]
	for i := range rows {
		r := &rows[i]
		to[i] = counts{r.messages.Load(), r.bytes.Load(), r.lastSeq.Load()}
		id := at + uint32(i)
		s.topicBits[id/64] |= uint64(r.topic.Load()) << (id % 64)
	}
}

// cloneNames copies the running hash of names.
func (t *Table) cloneNames() (names hash.Hash, upTo uint32) {
	d := &t.digest
	d.mu.Lock()
	defer d.mu.Unlock()
	if c, ok := d.names.(hash.Cloner); ok {
		if clone, err := c.Clone(); err == nil {
			return clone, d.upTo
		}
	}
	return sha256.New(), 1
}

func (s *Snapshot) isTopic(id uint32) bool { return s.topicBits[id/64]>>(id%64)&1 != 0 }

// partition is the node's partition at the moment of the snapshot.
func (s *Snapshot) partition(id uint32) PartitionID {
	if p := s.table.Partition(ID(id)); uint32(p) < s.partitions {
		return p
	}
	return NoPartition // it had none yet
}

// Digest is what Table.Digest was at that moment. One goroutine at a time.
func (s *Snapshot) Digest() [sha256.Size]byte {
	s.namesUpTo = hashNames(s.names, s.table, s.namesUpTo, s.nodes)
	sum := sha256.New()
	sum.Write(s.names.Sum(nil))
	buf := make([]byte, 0, digestBuffer)
	for id := range s.nodes {
		topic := uint32(0)
		if s.isTopic(id) {
			topic = 1
		}
		buf = appendState(buf, uint32(s.partition(id)), topic, s.counts[id])
		if len(buf)+stateBytes > cap(buf) {
			sum.Write(buf)
			buf = buf[:0]
		}
	}
	sum.Write(buf)
	return [sha256.Size]byte(sum.Sum(nil))
}

// A snapshot as bytes. It tells how the table grew, since that makes the same table again, with the same ids and partitions. Every number
// is a uvarint.
//
//	nodes, the root included    topics    partitions
//	late: how many one-segment nodes became topics, and so partitions, after they had been made as prefixes
//	  each: number of the partition, ascending    node
//	chains, until all nodes are made: a topic that was new, with the nodes above it that were new too
//	  how much less than its first node's id its parent's is    bytes of the rest of the name    these, without the slash before them
//	  each node of the chain, from the top: 0, or if it is a topic: messages+1, bytes, last seq
//
// The last node of a chain is always a topic.

// Encode writes the snapshot. The same table gives the same bytes.
func (s *Snapshot) Encode(w *bufio.Writer) error {
	var buf []byte
	late := s.late()
	for _, n := range [...]uint64{uint64(s.nodes), uint64(s.topics), uint64(s.partitions), uint64(len(late))} {
		buf = binary.AppendUvarint(buf, n)
	}
	for _, p := range late {
		buf = binary.AppendUvarint(buf, uint64(p))
		buf = binary.AppendUvarint(buf, uint64(s.table.PartitionNode(p)))
	}
	for first := uint32(1); first < s.nodes; {
		end := s.chainEnd(first)
		buf = s.appendChain(buf, first, end)
		first = end
		if len(buf) >= encodeBuffer {
			if _, err := w.Write(buf); err != nil {
				return fmt.Errorf("topic: write snapshot: %w", err)
			}
			buf = buf[:0]
		}
	}
	if _, err := w.Write(buf); err != nil {
		return fmt.Errorf("topic: write snapshot: %w", err)
	}
	return nil
}

const encodeBuffer = 32 << 10

// chainEnd is the node after the chain that first begins: the nodes of a chain share one name in the arena.
func (s *Snapshot) chainEnd(first uint32) uint32 {
	end := first + 1
	for name := s.table.row(ID(first)).name; end < s.nodes; end++ {
		if r := s.table.row(ID(end)); r.name != name || r.parent != ID(end-1) {
			break
		}
	}
	return end
}

// late are the partitions of one-segment nodes that did not end a chain.
func (s *Snapshot) late() (list []PartitionID) {
	for p := range PartitionID(s.partitions) {
		id := s.table.PartitionNode(p)
		if s.table.Depth(id) == 1 && s.chainEnd(uint32(id)) != uint32(id)+1 {
			list = append(list, p)
		}
	}
	return list
}

func (s *Snapshot) appendChain(buf []byte, first, end uint32) []byte {
	parent := s.table.row(ID(first)).parent
	rest := s.table.Name(ID(end - 1))
	if parent != Root {
		rest = rest[len(s.table.Name(parent))+1:]
	}
	buf = binary.AppendUvarint(buf, uint64(first-uint32(parent)))
	buf = binary.AppendUvarint(buf, uint64(len(rest)))
	buf = append(buf, rest...)
	for id := first; id < end; id++ {
		if !s.isTopic(id) {
			buf = append(buf, 0)
			continue
		}
		c := &s.counts[id]
		buf = binary.AppendUvarint(buf, c.messages+1)
		buf = binary.AppendUvarint(buf, c.bytes)
		buf = binary.AppendUvarint(buf, c.lastSeq)
	}
	return buf
}
