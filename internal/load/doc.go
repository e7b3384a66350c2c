// Package load drives a running cluster: publishes made-up events, replays recorded streams, reads and counts.
//
// It promises that latencies run from the call of Publish to the ack and are counted for every message; that a replay
// keeps the order of each topic however many producers it has; and that the numbers it reports are sums of what the
// cluster acknowledged, not of what was sent. It measures; it does not judge, and it starts no servers.
package load
