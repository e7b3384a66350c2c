// Package cluster is a node: raft, gossip, bootstrap, membership, and what a leader does.
//
// A Node owns one data folder. It keeps the stream's log through raft on a majority's disks, feeds committed entries
// to its Stream (fsm, topic table, tip, history), finds other nodes by gossip, and accepts publishes: on the leader they
// are gathered into entries and proposed, on another node they are forwarded to the leader. Readers go from history to
// the tip and on, without a seam.
//
// It promises that each Submission is completed exactly once, with a fate that is true: OK and Duplicate mean that the
// batch is on a majority's disks and applied here; codes that say "not executed" mean that it never will be; Unknown
// means that it may have been, or may yet be. After Failed is closed nothing more is acknowledged and the process is
// expected to exit.
//
// It does not talk to clients (transport does), and it decides nothing that replicas could see differently: all such
// decisions are log entries.
package cluster
