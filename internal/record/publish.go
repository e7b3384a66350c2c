package record

// The body of a KindPublish entry (before compression, little-endian):
//
//	0 u32 count       new topics that the entry names
//	4 u32 table size  bytes of the table at the end, a multiple of 8; 0 without new topics
//	8 batches         back to back, at least one
//	.. table          {u16 length 1..MaxTopicBytes, name}... count times, then zeros to a multiple of 8
//
// The table is at the end because the names are known only when the last batch was added: so batches are copied once, to
// where they stay.
const (
	publishHeaderSize = 8
	publishTableAt    = 4
)

// PublishBody splits and fully validates the body of a KindPublish: the names of new topics (views into body, appended to
// names[:0]) and the run of batches. Every batch and record is checked; topic numbers with NewTopic are below the number
// of names. Whether ids exist, and whether names are good, is the caller's to check.
func PublishBody(body []byte, names [][]byte) (namesOut [][]byte, batches []byte, err error) {
	names = names[:0]
	off, rule := checkPublishFrame(body)
	if rule != "" {
		return names, nil, corrupt("publish body", off, rule)
	}
	end := len(body) - int(le.Uint32(body[publishTableAt:]))
	count := le.Uint32(body)
	names, off, rule = appendNames(names, body[end:], count)
	if rule != "" {
		return names[:0], nil, corrupt("publish body", end+off, rule)
	}
	batches = body[publishHeaderSize:end:end]
	if off, rule := validateBatches(batches, count); rule != "" {
		return names[:0], nil, corrupt("publish body", publishHeaderSize+off, rule)
	}
	return names, batches, nil
}

func checkPublishFrame(body []byte) (int, string) {
	if len(body) < publishHeaderSize {
		return 0, "header of the body is cut short"
	}
	count, table := le.Uint32(body), le.Uint32(body[publishTableAt:])
	switch {
	case len(body)%Align != 0:
		return 0, "body is not a multiple of 8 bytes"
	case table%Align != 0:
		return publishTableAt, "table of new topics is not a multiple of 8 bytes"
	case uint64(table) > uint64(len(body)-publishHeaderSize):
		return publishTableAt, "table of new topics is longer than the body"
	case count > table/3: // a name takes at least 3 bytes: bounds what appendNames may allocate
		return 0, "more new topics than the table can hold"
	}
	return 0, ""
}

// appendNames takes count names off the table, which must hold nothing else but the shortest padding of zeros.
func appendNames(names [][]byte, table []byte, count uint32) ([][]byte, int, string) {
	off := 0
	for range count {
		if len(table)-off < 2 {
			return names, off, "table of new topics is cut short"
		}
		n := int(le.Uint16(table[off:]))
		switch {
		case n == 0:
			return names, off, "name of a new topic is empty"
		case n > MaxTopicBytes:
			return names, off, "name of a new topic is " + overLimit
		case n > len(table)-off-2:
			return names, off, "name of a new topic is longer than the table"
		}
		names = append(names, table[off+2:off+2+n:off+2+n])
		off += 2 + n
	}
	if pad(off) != len(table) {
		return names, off, "table of new topics has more bytes than its names"
	}
	for i, c := range table[off:] {
		if c != 0 {
			return names, off + i, "padding of the table of new topics is not zero"
		}
	}
	return names, 0, ""
}

func validateBatches(batches []byte, newTopics uint32) (int, string) {
	if len(batches) == 0 {
		return 0, "entry has no batches"
	}
	for off := 0; off < len(batches); {
		rest := batches[off:]
		if len(rest) < BatchHeaderSize {
			return off, "batch header is cut short"
		}
		size := le.Uint32(rest)
		if uint64(size) > uint64(len(rest)) || size < BatchHeaderSize {
			return off, "batch size differs from the bytes that are there"
		}
		if at, rule := Batch(rest[:size]).validate(newTopics); rule != "" {
			return off + at, rule
		}
		off += int(size)
	}
	return 0, ""
}

// NextBatch takes the first batch off validated batches.
func NextBatch(batches []byte) (b Batch, rest []byte) {
	size := le.Uint32(batches)
	return Batch(batches[:size:size]), batches[size:]
}
