// Package http is the control plane of a node: health, status, membership, topics, the configuration in force, metrics and
// profiles, and the data plane for those who have only HTTP: publishing as NDJSON and subscribing as server-sent events.
//
// Every node answers every route. What only the leader can do (membership, leadership, checkpoints) is passed on to it, once;
// a caller never needs to know who leads. Errors are JSON of one shape, see Problem. The routes stand in openapi.yaml, which
// a test holds against the table in routes.go.
//
// It keeps no state of its own but the rate samples of topics, and decides nothing: the node does.
package http
