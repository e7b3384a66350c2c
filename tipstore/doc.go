// Package tipstore keeps the tip: the recent stream, in memory, with an index by partition.
//
// A Store is a ring of fixed chunks of memory outside the Go heap. One writer appends validated runs of records and moves
// a fence; any number of readers see all that lies below the fence and nothing above it. Readers are positions (Cursor),
// not queues: a slow reader costs no memory and never makes the writer wait. What a reader gets (View) are pieces of the
// ring itself, pinned until it gives them back.
//
// Per partition a posting list holds the places of its records, four bytes each, in blocks of a shared pool. A cursor over
// a part of the topic tree merges the lists of the partitions its matcher accepts, or walks the ring past what it does not
// want, whichever costs less. A floor (SetFloor) keeps what an archiver has not stored yet in memory. Watches wake sleeping
// readers, and cost the writer nothing while nothing matches.
//
// The package promises: records in seq order, none missing, none twice, none foreign; a GoneError when the position has
// left the ring; no allocation in the steady state; memory bounded by ring, spare and overflow chunks, index, and what
// cannot be archived yet.
//
// It does not decide what is stored (that is the state machine's part), keeps nothing on disk, starts no goroutine and
// does not know the wire. DESIGN.md holds the layout and the argument why readers need no locks.
package tipstore
