// Package conformance has the tests that every Cantus server passes, the fake and the real one, as seen through the
// client. A test of a new server, or of a program that stands in for one, calls Run.
//
// It tests what a client can rely on: order, exactly once, start positions, caught-up, progress, atomic batches,
// errors. It does not test speed, durability, or what happens inside a cluster.
package conformance
