package record

// checkRecord checks the record that begins run and returns its padded size, or the rule that it breaks. It is the inner
// loop of every validation: rules are constant strings so that the good path costs a few compares.
func checkRecord(run []byte) (int, string) {
	if len(run) < HeaderSize {
		return 0, "record header is cut short"
	}
	word := le.Uint32(run)
	size := int(word & sizeMask)
	padded := pad(size)
	switch {
	case word&sizeReserved != 0:
		return 0, "reserved bits of the record size are not zero"
	case size < HeaderSize:
		return 0, "record size is less than its header"
	case padded > len(run):
		return 0, "record is longer than its run"
	}
	// The last eight bytes hold all padding: shift the record's own bytes out. Without padding the shift is 64, which gives 0.
	if le.Uint64(run[padded-Align:])>>(8*(Align-uint(padded-size))) != 0 {
		return 0, "padding of a record is not zero"
	}
	payload := size - HeaderSize
	if word&headersFlag != 0 {
		n, rule := checkHeaderBlock(run[HeaderSize:size])
		if rule != "" {
			return 0, rule
		}
		payload -= n
	}
	if payload > MaxPayload {
		return 0, "payload is " + overLimit
	}
	return padded, ""
}

// ValidateRun checks every record's bounds, padding, header block and payload limit, and that there are count of them. The
// offset of the error is the bad record's.
func ValidateRun(run []byte, count int) error {
	n, off := 0, 0
	for off < len(run) {
		padded, rule := checkRecord(run[off:])
		if rule != "" {
			return corrupt("run", off, rule)
		}
		off += padded
		n++
	}
	if n != count {
		return corrupt("run", len(run), "run has not as many records as were counted")
	}
	return nil
}

// validateUnapplied is ValidateRun for records that were not applied yet: seq and time are 0, and numbers of new topics
// are below newTopics.
func validateUnapplied(run []byte, count int, newTopics uint32) (int, string) {
	n, off := 0, 0
	for off < len(run) {
		padded, rule := checkRecord(run[off:])
		if rule != "" {
			return off, rule
		}
		rec := run[off:]
		if le.Uint64(rec[seqAt:])|le.Uint64(rec[timeAt:]) != 0 {
			return off, "seq or time is set before the record was applied"
		}
		if !topicKnown(le.Uint32(rec[topicAt:]), newTopics) {
			return off, "topic number is not in the entry's table of new topics"
		}
		off += padded
		n++
	}
	if n != count {
		return len(run), "batch has not as many records as it counts"
	}
	return 0, ""
}

// topicKnown says that a number is an id, or an index below newTopics.
func topicKnown(topic, newTopics uint32) bool {
	return topic < NewTopic || topic-NewTopic < newTopics
}
