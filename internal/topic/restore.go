package topic

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// ErrBadSnapshot is wrapped by Restore's error when the bytes are not what Encode writes.
var ErrBadSnapshot = errors.New("not the snapshot of a topic table")

// Restore makes of a new table the one that a snapshot was encoded from: the same ids, partitions, counts and digest. It goes through the
// same steps as the first table did, and checks each. The table's limit does not matter: it may be lower than what is restored. After an
// error the table is of no use. Writer only.
func (t *Table) Restore(r *bufio.Reader) error {
	if t.Nodes() != 1 {
		return fmt.Errorf("topic: restore: the table is not new: it has %d nodes", t.Nodes())
	}
	limit := t.MaxTopics()
	t.SetMaxTopics(LimitMaxTopics)
	defer t.SetMaxTopics(limit)
	s := restorer{table: t, r: r, promoted: make(map[ID]bool)}
	if err := s.run(); err != nil {
		return fmt.Errorf("topic: restore node %d: %w", t.Nodes(), err)
	}
	return nil
}

type restorer struct {
	table *Table
	r     *bufio.Reader
	late  []latePartition // those to come, in order
	// promoted are one-segment prefixes that are to become topics when the turn of their partition comes.
	promoted map[ID]bool
	name     [MaxBytes]byte
}

type latePartition struct {
	number uint64
	node   ID
}

func (s *restorer) run() error {
	nodes, topics, partitions, err := s.header()
	if err != nil {
		return err
	}
	for uint64(s.table.Nodes()) < nodes {
		if err := s.chain(nodes); err != nil {
			return err
		}
	}
	if err := s.promoteLate(); err != nil {
		return err
	}
	t := s.table
	if len(s.late) > 0 || len(s.promoted) > 0 || uint64(t.Topics()) != topics || uint64(t.Partitions()) != partitions {
		return fmt.Errorf("it has %d topics and %d partitions, but announces %d and %d: %w", t.Topics(), t.Partitions(), topics, partitions, ErrBadSnapshot)
	}
	return nil
}

func (s *restorer) header() (nodes, topics, partitions uint64, err error) {
	late := uint64(0)
	for _, n := range [...]*uint64{&nodes, &topics, &partitions, &late} {
		if *n, err = s.number(); err != nil {
			return 0, 0, 0, err
		}
	}
	if nodes < 1 || nodes > uint64(maxNodes(LimitMaxTopics)) || topics > LimitMaxTopics || late > partitions {
		return 0, 0, 0, fmt.Errorf("it announces %d nodes, %d topics: %w", nodes, topics, ErrBadSnapshot)
	}
	for range late {
		number, err := s.number()
		if err != nil {
			return 0, 0, 0, err
		}
		node, err := s.number()
		if err != nil {
			return 0, 0, 0, err
		}
		if n := len(s.late); node >= nodes || n > 0 && s.late[n-1].number >= number {
			return 0, 0, 0, fmt.Errorf("partition %d is out of order: %w", number, ErrBadSnapshot)
		}
		s.late = append(s.late, latePartition{number, ID(node)})
	}
	return nodes, topics, partitions, nil
}

// chain makes the nodes of one chain.
func (s *restorer) chain(nodes uint64) error {
	var c chain
	name, err := s.chainName(&c)
	if err != nil {
		return err
	}
	t := s.table
	for depth, start := 1, 0; start <= len(name); depth++ {
		end := nextEnd(name, start)
		c.ends[depth-1], c.count = uint16(end), depth
		if depth >= c.depth {
			c.hashes[depth-1] = t.index.hash(name[:end])
		}
		start = end + 1
	}
	if _, found := t.find(name[:c.ends[c.depth-1]], c.hashes[c.depth-1]); found || uint64(c.first)+uint64(c.count-c.depth) >= nodes {
		return fmt.Errorf("%s is there twice, or beyond the announced nodes: %w", quote(name), ErrBadSnapshot)
	}
	if c.depth <= 2 { // it makes a partition
		if err := s.promoteLate(); err != nil {
			return err
		}
	}
	leaf, err := t.grow(&c, []byte(name))
	if err != nil {
		return err
	}
	return s.chainCounts(ID(c.first), leaf)
}

// chainName reads where a chain begins and gives the whole name of its last node, in s.name.
func (s *restorer) chainName(c *chain) (string, error) {
	c.first = s.table.nodeCount.Load()
	up, err := s.number()
	if err != nil {
		return "", err
	}
	if up < 1 || up > uint64(c.first) {
		return "", fmt.Errorf("its parent is %d nodes before: %w", up, ErrBadSnapshot)
	}
	c.parent = ID(c.first - uint32(up))
	c.depth = s.table.Depth(c.parent) + 1
	size := copy(s.name[:], s.table.Name(c.parent))
	if c.parent != Root && size < len(s.name) {
		s.name[size] = '/'
		size++
	}
	rest, err := s.number()
	if err != nil {
		return "", err
	}
	if rest > uint64(len(s.name)-size) {
		return "", fmt.Errorf("a name of %d bytes more than %d: %w", rest, size, ErrBadSnapshot)
	}
	name := s.name[:size+int(rest)]
	if _, err := io.ReadFull(s.r, name[size:]); err != nil {
		return "", s.ended(err)
	}
	if rule := check(view(name)); rule != "" {
		return "", fmt.Errorf("%s: %s: %w", quote(string(name)), rule, ErrBadSnapshot)
	}
	return view(name), nil
}

// chainCounts reads which nodes of a chain are topics, and their counts.
func (s *restorer) chainCounts(first, leaf ID) error {
	for id := first; id <= leaf; id++ {
		messages, err := s.number()
		if err != nil {
			return err
		}
		if messages == 0 {
			if id == leaf {
				return fmt.Errorf("it ends a chain and is no topic: %w", ErrBadSnapshot)
			}
			continue
		}
		bytes, err := s.number()
		if err != nil {
			return err
		}
		lastSeq, err := s.number()
		if err != nil {
			return err
		}
		s.table.Add(id, messages-1, bytes, lastSeq)
		switch {
		case id == leaf:
		case s.table.Depth(id) == 1:
			s.promoted[id] = true
		default:
			s.table.promote(id)
		}
	}
	return nil
}

// promoteLate makes topics of the one-segment prefixes whose partitions come next.
func (s *restorer) promoteLate() error {
	for len(s.late) > 0 && s.late[0].number == uint64(s.table.Partitions()) {
		id := s.late[0].node
		if !s.promoted[id] {
			return fmt.Errorf("partition %d is of node %d, which is no one-segment prefix: %w", s.late[0].number, id, ErrBadSnapshot)
		}
		delete(s.promoted, id)
		s.table.promote(id)
		s.late = s.late[1:]
	}
	return nil
}

// number reads a uvarint.
func (s *restorer) number() (n uint64, err error) {
	for shift := uint(0); ; shift += 7 {
		b, err := s.r.ReadByte()
		if err != nil {
			return 0, s.ended(err)
		}
		if shift > 63 || shift == 63 && b > 1 {
			return 0, fmt.Errorf("a number is longer than 64 bits: %w", ErrBadSnapshot)
		}
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n, nil
		}
	}
}

// ended makes a bad snapshot of one that ends too early; other errors are the reader's.
func (s *restorer) ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("it ends too early: %w", ErrBadSnapshot)
	}
	return err
}
