package topic

import (
	"hash"
	"hash/maphash"
	"iter"
	"sync"
	"sync/atomic"
	"unsafe"
)

// ID numbers a node of the topic tree, in order of creation. Every prefix of a topic is a node; a node that was itself
// published to is a topic. The numbers are the same on every replica. A parent's id is less than its children's.
type ID uint32

// Root is the node of the empty path. It is never a topic.
const Root ID = 0

// PartitionID numbers partitions densely from 0 in order of creation.
type PartitionID uint32

// NoPartition is the partition of the root, and of a one-segment node that is not a topic.
const NoPartition = ^PartitionID(0)

const (
	// DefaultMaxTopics is the topic limit when NewTable is given none.
	DefaultMaxTopics = 4_000_000
	// LimitMaxTopics is the highest topic limit.
	LimitMaxTopics = 16_000_000
	// A table of n topics holds at most n*nodesPerTopic+spareNodes nodes, so that deep topics that share nothing cannot
	// take MaxSegments times the memory that the topic limit suggests.
	nodesPerTopic = 8
	spareNodes    = 1024
)

// row is one node: 64 bytes, so that counting a message and finding its partition touch one cache line. Fields that are
// not atomic are written before the node can be found and never again.
type row struct {
	messages atomic.Uint64
	bytes    atomic.Uint64
	lastSeq  atomic.Uint64

	name    uint32 // offset in the arena; a node that is not a topic points into its first descendant's name
	nameLen uint16
	depth   uint8

	parent ID
	next   ID            // the sibling made before this one, Root: none
	first  atomic.Uint32 // the youngest child, Root: none

	children  atomic.Uint32
	topics    atomic.Uint32 // topics at or below this node
	partition atomic.Uint32 // changes once at most: NoPartition to a number, when a one-segment node becomes a topic
	topic     atomic.Uint32 // 1: is a topic. Never goes back to 0
	_         [4]byte
}

// A row is one cache line; chunks of rows begin on a page.
var _ [64]byte = [unsafe.Sizeof(row{})]byte{}

// Table is the topic table and tree. One goroutine writes (Intern, Add); any number read without locks. DESIGN.md has
// the layout and the order in which a new topic becomes visible.
type Table struct {
	maxTopics atomic.Int64 // Invariant: at most LimitMaxTopics, which all directories have room for

	rows       chunked[row]
	partitions chunked[ID] // node of each partition, written before partCount covers it
	names      arena
	index      index

	// The counts are advanced last: whatever they cover can be found by every method.
	nodeCount  atomic.Uint32
	partCount  atomic.Uint32
	topicCount atomic.Uint32
	memory     atomic.Int64 // bytes of all chunks, shards and directories

	digest struct {
		mu    sync.Mutex
		names hash.Hash // over the names of nodes [1, upTo)
		upTo  uint32
	}
}

// NewTable makes an empty table for at most maxTopics topics: see SetMaxTopics. 0 or less means DefaultMaxTopics.
func NewTable(maxTopics int) *Table {
	if maxTopics <= 0 {
		maxTopics = DefaultMaxTopics
	}
	most := maxNodes(LimitMaxTopics)
	t := &Table{
		rows:       newChunked[row](most),
		partitions: newChunked[ID](most),
		names:      newArena(LimitMaxTopics),
		index:      index{seed: maphash.MakeSeed()},
	}
	t.SetMaxTopics(maxTopics)
	t.memory.Add(int64(unsafe.Sizeof(*t)) + t.rows.dirBytes() + t.partitions.dirBytes() + t.names.dirBytes())
	t.memory.Add(t.rows.reserve(1))
	t.rows.at(0).partition.Store(uint32(NoPartition))
	t.nodeCount.Store(1)
	return t
}

// maxNodes bounds the nodes of a table of so many topics.
func maxNodes(topics int) int { return topics*nodesPerTopic + spareNodes }

// SetMaxTopics changes the limit, 1 to LimitMaxTopics (more means that); one below what there is only refuses new topics.
// The limit decides whether Intern refuses, so it must be the same on every replica at the same place of the log. Writer
// only.
func (t *Table) SetMaxTopics(n int) { t.maxTopics.Store(int64(min(n, LimitMaxTopics))) }

// MaxTopics is the limit in force.
func (t *Table) MaxTopics() int { return int(t.maxTopics.Load()) }

// Nodes counts the nodes, the root included: ids below it are complete and can be looked up.
func (t *Table) Nodes() int { return int(t.nodeCount.Load()) }

// Topics counts the nodes that are topics.
func (t *Table) Topics() int { return int(t.topicCount.Load()) }

// Partitions counts the partitions: numbers below it are complete and their nodes can be looked up.
func (t *Table) Partitions() int { return int(t.partCount.Load()) }

// MemoryBytes is what the table occupies: rows, names, index and directories.
func (t *Table) MemoryBytes() int64 { return t.memory.Load() }

// Lookup finds a node by its path, whether a topic or not. The empty path is the root.
func (t *Table) Lookup(path string) (ID, bool) {
	if path == "" {
		return Root, true
	}
	return t.find(path, t.index.hash(path))
}

// find looks up a path that is not empty by its hash.
func (t *Table) find(path string, hash uint64) (ID, bool) {
	s := t.index.shards[hash>>(64-shardBits)].Load()
	if s == nil {
		return Root, false
	}
	tag := uint32(hash)
	for i, mask := int(tag>>s.shift), len(s.slots)-1; ; i = (i + 1) & mask {
		entry := s.slots[i].Load()
		if entry == 0 {
			return Root, false
		}
		if id := ID(entry); uint32(entry>>32) == tag && t.Name(id) == path {
			return id, true
		}
	}
}

// LookupBytes is Lookup for bytes; it keeps none of them.
func (t *Table) LookupBytes(path []byte) (ID, bool) { return t.Lookup(view(path)) }

// The methods below take an id that any method of this table has returned, or one below Nodes(); they panic on another.

func (t *Table) row(id ID) *row { return t.rows.at(uint32(id)) }

// Name is the path of a node, "" for the root. It does not allocate: the string points into the table and keeps it alive.
func (t *Table) Name(id ID) string {
	r := t.row(id)
	return t.names.str(r.name, r.nameLen)
}

// IsTopic tells whether the node itself was interned, not only a topic below it.
func (t *Table) IsTopic(id ID) bool { return t.row(id).topic.Load() != 0 }

// Parent is the node one segment up; the root is its own parent.
func (t *Table) Parent(id ID) ID { return t.row(id).parent }

// Depth is the number of segments.
func (t *Table) Depth(id ID) int { return int(t.row(id).depth) }

// Partition is the partition of a node: that of its first two segments; of a node with one segment, its own once it is
// a topic.
func (t *Table) Partition(id ID) PartitionID { return PartitionID(t.row(id).partition.Load()) }

// PartitionNode is the node whose path names a partition.
func (t *Table) PartitionNode(p PartitionID) ID { return *t.partitions.at(uint32(p)) }

// Children lists the nodes one segment below, youngest first.
func (t *Table) Children(id ID) iter.Seq[ID] {
	return func(yield func(ID) bool) {
		for c := ID(t.row(id).first.Load()); c != Root; c = t.row(c).next {
			if !yield(c) {
				return
			}
		}
	}
}

// Stats are the counts of the topic itself, not of its subtree. Beside a running writer the three need not belong to the
// same Add.
func (t *Table) Stats(id ID) (messages, bytes, lastSeq uint64) {
	r := t.row(id)
	return r.messages.Load(), r.bytes.Load(), r.lastSeq.Load()
}

// TopicsBelow counts the topics at or below a node.
func (t *Table) TopicsBelow(id ID) int { return int(t.row(id).topics.Load()) }
