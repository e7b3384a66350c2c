// Package bugs plants faults on purpose, each behind a build tag of its own, so that the fault-injection harness can show that
// it would find such a fault, and takes guards against raft's own faults away, so that it shows that a test needs them.
//
// It promises that a build without these tags holds none of them: all are constants, and the compiler removes what they guard.
// It is nothing for use in a running system.
package bugs
