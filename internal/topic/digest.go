package topic

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// Digest is a SHA-256 over the names of all nodes in order of creation, then over each node's state. Equal tables have
// equal digests. Names are hashed once, when a Digest first sees them; the rest costs 32 bytes of hashing per node.
//
// It may be called from any goroutine, but only a call from the writer's describes one moment.
//
//	names    per node but the root: length (2 bytes), bytes
//	state    per node: partition (4), 1 if a topic (4), messages (8), bytes (8), last seq (8)
//	digest   SHA-256( SHA-256(names) state ); integers are little-endian
func (t *Table) Digest() [sha256.Size]byte {
	nodes := t.nodeCount.Load()
	sum := sha256.New()
	sum.Write(t.namesDigest(nodes))
	buf := make([]byte, 0, digestBuffer)
	for id := range nodes {
		r := t.row(ID(id))
		buf = appendState(buf, r.partition.Load(), r.topic.Load(), counts{r.messages.Load(), r.bytes.Load(), r.lastSeq.Load()})
		if len(buf)+stateBytes > cap(buf) {
			sum.Write(buf)
			buf = buf[:0]
		}
	}
	sum.Write(buf)
	return [sha256.Size]byte(sum.Sum(nil))
}

const (
	stateBytes   = 32
	digestBuffer = 32 << 10
)

func appendState(buf []byte, partition, topic uint32, c counts) []byte {
	buf = binary.LittleEndian.AppendUint32(buf, partition)
	buf = binary.LittleEndian.AppendUint32(buf, topic)
	buf = binary.LittleEndian.AppendUint64(buf, c.messages)
	buf = binary.LittleEndian.AppendUint64(buf, c.bytes)
	return binary.LittleEndian.AppendUint64(buf, c.lastSeq)
}

// namesDigest extends the running hash of names to nodes [1, nodes).
func (t *Table) namesDigest(nodes uint32) []byte {
	d := &t.digest
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names == nil {
		d.names, d.upTo = sha256.New(), 1
	}
	d.upTo = hashNames(d.names, t, d.upTo, nodes)
	return d.names.Sum(nil)
}

// hashNames adds the names of nodes [from, nodes) and returns where to go on.
func hashNames(sum hash.Hash, t *Table, from, nodes uint32) uint32 {
	buf := make([]byte, 0, digestBuffer)
	for ; from < nodes; from++ {
		name := t.Name(ID(from))
		buf = binary.LittleEndian.AppendUint16(buf, uint16(len(name)))
		buf = append(buf, name...)
		if len(buf)+2+MaxBytes > cap(buf) {
			sum.Write(buf)
			buf = buf[:0]
		}
	}
	sum.Write(buf)
	return from
}
