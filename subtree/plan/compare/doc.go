// Package compare holds ways to split topics over stores against each other: the planner that ships, simple rules, and
// the optimum, over the volumes of a recorded stream.
//
// It promises that all are measured alike, topic by topic through what a reader would ask, and that stores are whole:
// nothing is skipped inside one. It measures plans, not files: disks, blocks and compression are not in it.
package compare
