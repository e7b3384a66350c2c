// Package clustertest starts clusters of real nodes in one process for tests: on loopback with free ports, in temporary
// folders, with short timers, and stops them so that no goroutine is left. Nodes can be crashed (the network goes first,
// nothing is handed over), stopped, restarted and added.
//
// It promises nothing about time: tests poll with Eventually. It is not for programs.
package clustertest
