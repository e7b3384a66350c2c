// Package topic holds the names of a stream: what a valid topic is, filters over topics, and the table that numbers the
// nodes of the topic tree and counts what was published to each.
//
// It promises:
//   - The same sequence of Intern and Add calls gives the same ids, partitions and digest on every replica. Nothing
//     that differs between processes (hash seeds, addresses, the clock) reaches the state.
//   - One goroutine writes; any number read beside it without locks and without waiting. What a count (Nodes, Topics,
//     Partitions) includes can be found by every other method.
//   - Filters are a union: a normalised list never matches a topic for two reasons, so nothing is delivered twice.
//   - Everything is bounded: names by MaxSegments and MaxBytes, filters by MaxFilters, the table by its topic limit.
//
// It does not store messages, does not know rates or time, and never forgets a topic.
package topic
