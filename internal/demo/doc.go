// Package demo is the main job of the broker on one machine, checked: it starts nodes as processes, replays a real stream
// through an exactly-once producer, reads parts of the topic tree from a follower, kills the leader, brings it back, and
// reads everything from every node.
//
// It promises that every message that any reader gets is held against what was published (nothing lost, repeated, out of
// order or foreign), that the figures it reports were measured in this run, and that nothing is left behind, whether it
// ends well, badly, or by Ctrl-C. It is no benchmark: the stream is paced. The nodes
// keep little of it in memory, so that much is read from disk.
package demo
