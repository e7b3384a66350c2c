// Package node runs real cantus processes as a cluster and hurts them.
//
// A Node is one process with its data folder, log and place in a network; a Cluster is all of them and what is in force
// against them. Every change of a node's state, and whether the cluster owes service, is recorded in the history.
//
// It promises that a process which ends by itself is noticed, recorded and started again, as a service manager would; that
// Close leaves no process; and that logs of all starts of a node stay in one file. It decides nothing about when to hurt whom.
package node
