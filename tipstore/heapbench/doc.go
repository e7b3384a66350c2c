// Package heapbench measures what could stand at the centre of the tip's merge: priority queues over the next key of each
// list. It holds those that do not ship, behind one interface with the one that does, and made-up lists to merge.
//
// It promises that all of them return the same, and that the interface is called once per batch of keys and not once per
// key, so that what is compared are the queues. It is for benchmarks and `cantus bench tip`; nothing that serves uses it.
// DESIGN.md holds the figures.
package heapbench
