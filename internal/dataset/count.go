package dataset

import "strings"

// Count is what a reader of some filters must get.
type Count struct {
	Messages uint64
	Bytes    uint64 // payloads
}

// Matches says whether a topic is in the union of filters (a topic, "a/b/**", or "**"), by comparing strings: the obvious
// way, kept free of the broker's own matching so that the two can be held against each other.
func Matches(filters []string, name string) bool {
	for _, f := range filters {
		prefix, subtree := strings.CutSuffix(f, "**")
		switch {
		case !subtree:
			if name == f {
				return true
			}
		case strings.HasPrefix(name+"/", prefix):
			return true
		}
	}
	return false
}

// CountMatches counts the rows that a subscription to filters must deliver.
func CountMatches(rows []Row, filters []string) Count {
	var c Count
	for _, row := range rows {
		if Matches(filters, string(row.Topic)) {
			c.Messages++
			c.Bytes += uint64(row.Bytes)
		}
	}
	return c
}
