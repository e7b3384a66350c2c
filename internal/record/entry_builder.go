package record

// EntryBuilder gathers the batches of a publish entry in reused buffers: Reset, {NewTopicRef..., AddBatch}..., Finish. The
// zero value is ready after Reset. Not for several goroutines at once.
type EntryBuilder struct {
	body    []byte            // header of the body, then batches; a multiple of Align until Finish
	table   []byte            // encoded names of new topics, not padded
	refs    map[string]uint32 // name -> its index in table
	batches int               // in body
	comp    compressor
}

// maxKeptNames is how many names the map of an entry may have had to be kept for the next one: clearing a map costs what
// it once held.
const maxKeptNames = 4096

// maxKeptBody is the largest buffer that is kept for the next entry, in bytes.
const maxKeptBody = 4 << 20

// Reset begins the next entry. What AddBatch returned is invalid from here on.
func (e *EntryBuilder) Reset() {
	if cap(e.body) > maxKeptBody {
		e.body, e.comp.out = nil, nil
	}
	e.body = append(e.body[:0], zeros[:publishHeaderSize]...)
	e.table = e.table[:0]
	e.batches = 0
	switch n := len(e.refs); {
	case e.refs == nil || n > maxKeptNames:
		e.refs = make(map[string]uint32)
	case n > 0:
		clear(e.refs)
	}
}

// NewTopicRef returns NewTopic|index for a name that the proposer's table does not have: the same for equal names. The
// name is 1 to MaxTopicBytes bytes, a valid topic. The builder keeps the string until Reset.
func (e *EntryBuilder) NewTopicRef(name string) uint32 {
	if ref, ok := e.refs[name]; ok {
		return ref
	}
	ref := NewTopic | uint32(len(e.refs))
	e.refs[name] = ref
	e.table = le.AppendUint16(e.table, uint16(len(name)))
	e.table = append(e.table, name...)
	return ref
}

// AddBatch copies a validated batch and returns the copy, so that the caller rewrites topic numbers in place before the next
// AddBatch or Finish.
func (e *EntryBuilder) AddBatch(b Batch) []byte {
	start := len(e.body)
	e.body = append(e.body, b...)
	e.batches++
	return e.body[start:len(e.body):len(e.body)]
}

// Size is what the body would have if it were finished now, in bytes before compression.
func (e *EntryBuilder) Size() int { return len(e.body) + pad(len(e.table)) }

// Batches is how many were added.
func (e *EntryBuilder) Batches() int { return e.batches }

// Finish returns the entry as a fresh slice of exactly its bytes (raft keeps it), compressed by c if that saves at least an
// eighth. Kind, Codec and RawSize of h are set here. Reset begins the next entry.
func (e *EntryBuilder) Finish(c Codec, h EntryHeader) []byte {
	table := len(e.body)
	e.body = append(e.body, e.table...)
	e.body = appendPad(e.body, table)
	le.PutUint32(e.body, uint32(len(e.refs)))
	le.PutUint32(e.body[publishTableAt:], uint32(len(e.body)-table))

	h.Kind, h.Codec, h.RawSize = KindPublish, CodecNone, uint32(len(e.body))
	stored := e.body
	if packed, ok := e.comp.compress(c, e.body); ok {
		h.Codec, stored = c, packed
	}
	return sealEntry(h, stored)
}
