// Package workload drives a cluster through the client and records what it did and saw.
//
// A workload is publishers, readers and sometimes an operator, all goroutines of the harness. They go on whatever happens to the
// nodes: an error is an outcome that is recorded, never a reason to stop. All choices come from the run's seed; how the choices
// interleave does not.
//
// It promises that every call is recorded with its outcome, that publishing ends when it is told to and reading when everything
// was read or patience is over. It does not judge: that is package check.
package workload
