package topic

import "fmt"

// Intern finds or makes a topic and the nodes above it. created tells that the name was not a topic before. Writer only;
// name is not kept. A bad name is refused with an *Error, a name beyond a limit with an error that wraps ErrTooMany;
// both leave the table as it was.
func (t *Table) Intern(name []byte) (id ID, created bool, err error) {
	id, found := t.LookupBytes(name)
	if found && t.IsTopic(id) {
		return id, false, nil
	}
	if err := ValidateBytes(name); err != nil {
		return Root, false, err
	}
	if t.Topics() >= t.MaxTopics() {
		return Root, false, t.tooMany(name, "topics", t.MaxTopics())
	}
	if found {
		t.promote(id)
		return id, true, nil
	}
	id, err = t.create(name)
	return id, err == nil, err
}

func (t *Table) tooMany(name []byte, of string, limit int) error {
	return fmt.Errorf("intern topic %s: %w: the table holds its limit of %d %s; use existing topics or raise the limit",
		quote(string(name)), ErrTooMany, limit, of)
}

// Add counts messages and bytes (payload and headers) to a topic and sets its last seq. Writer only.
func (t *Table) Add(id ID, messages, bytes, lastSeq uint64) {
	r := t.row(id)
	r.messages.Store(r.messages.Load() + messages)
	r.bytes.Store(r.bytes.Load() + bytes)
	r.lastSeq.Store(lastSeq)
}

// promote makes a topic of a node that had only been a prefix.
func (t *Table) promote(id ID) {
	r := t.row(id)
	parts := t.partCount.Load()
	if r.depth == 1 {
		parts = t.addPartition(parts, id)
		r.partition.Store(parts - 1)
	}
	r.topic.Store(1)
	t.countTopic(id)
	t.partCount.Store(parts)
	t.topicCount.Add(1)
}

// addPartition writes the node of partition number parts and returns the next count, which the caller publishes.
func (t *Table) addPartition(parts uint32, node ID) uint32 {
	t.memory.Add(t.partitions.reserve(int(parts) + 1))
	*t.partitions.at(parts) = node
	return parts + 1
}

// countTopic adds a topic to every node from id up to the root.
func (t *Table) countTopic(id ID) {
	for {
		r := t.row(id)
		r.topics.Add(1)
		if id == Root {
			return
		}
		id = r.parent
	}
}

// chain is the run of nodes that a new topic needs: numbered from first, each the parent of the next.
type chain struct {
	parent ID                  // existing node above the first new one
	first  uint32              // id of the first new node
	depth  int                 // segments of the first new node
	ends   [MaxSegments]uint16 // ends[i]: length of the prefix of i+1 segments
	hashes [MaxSegments]uint64 // hashes[i]: of that prefix, for new nodes
	count  int                 // segments of the topic; nodes of depth [depth, count] are new
}

// create makes the nodes of a valid name that is not in the table. The order of its steps is the order in which
// concurrent readers may see them: rows, then the ways to find them (index, sibling list), then the counts.
func (t *Table) create(name []byte) (ID, error) {
	var c chain
	t.plan(&c, name)
	return t.grow(&c, name)
}

// grow makes the nodes of a chain that was planned and returns the last.
func (t *Table) grow(c *chain, name []byte) (ID, error) {
	nodes := c.count - c.depth + 1
	if most := maxNodes(t.MaxTopics()); int(c.first)+nodes > most {
		return Root, t.tooMany(name, "tree nodes", most)
	}
	off, ok := t.names.place(len(name))
	if !ok {
		return Root, t.tooMany(name, "bytes of names", len(t.names.dir)<<arenaChunkBits)
	}
	t.memory.Add(t.names.put(off, name) + t.rows.reserve(int(c.first)+nodes))
	parts := t.fill(c, uint32(off))
	t.link(c)
	leaf := ID(int(c.first) + nodes - 1)
	t.countTopic(leaf)
	t.nodeCount.Store(uint32(leaf) + 1)
	t.partCount.Store(parts)
	t.topicCount.Add(1)
	return leaf, nil
}

// plan finds the deepest node of name that exists and says which are to be made.
func (t *Table) plan(c *chain, name []byte) {
	path := view(name)
	for end := -1; end < len(path); c.count++ {
		end = nextEnd(path, end+1)
		c.ends[c.count] = uint16(end)
	}
	c.first = t.nodeCount.Load()
	for c.depth = c.count; ; c.depth-- {
		c.hashes[c.depth-1] = t.index.hash(path[:c.ends[c.depth-1]])
		if c.depth == 1 {
			return
		}
		above := path[:c.ends[c.depth-2]]
		if id, ok := t.Lookup(above); ok {
			c.parent = id
			return
		}
	}
}

// fill writes the rows of a chain, whose name stands at off, and returns the new partition count.
func (t *Table) fill(c *chain, off uint32) (parts uint32) {
	parts = t.partCount.Load()
	parent := c.parent
	for depth := c.depth; depth <= c.count; depth++ {
		id := ID(int(c.first) + depth - c.depth)
		r := t.row(id)
		r.name, r.nameLen, r.depth = off, c.ends[depth-1], uint8(depth)
		r.parent = parent
		// A one-segment node that is only a prefix takes the root's NoPartition.
		partition := t.row(parent).partition.Load()
		if depth == 2 || depth == 1 && c.count == 1 {
			partition = parts
			parts = t.addPartition(parts, id)
		}
		r.partition.Store(partition)
		if depth == c.count {
			r.topic.Store(1)
		} else {
			r.first.Store(uint32(id) + 1)
			r.children.Store(1)
		}
		parent = id
	}
	return parts
}

// link makes the rows of a chain findable.
func (t *Table) link(c *chain) {
	p := t.row(c.parent)
	t.row(ID(c.first)).next = ID(p.first.Load())
	for depth := c.depth; depth <= c.count; depth++ {
		t.memory.Add(t.index.put(c.hashes[depth-1], ID(int(c.first)+depth-c.depth)))
	}
	p.first.Store(c.first)
	p.children.Add(1)
}
