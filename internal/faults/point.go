package faults

// Point is a step of the broker between two writes to its disk, at which a test build can be ended.
type Point string

// The points, in the order in which a node comes by them.
const (
	Append    Point = "append"    // in the midst of storing entries in the raft log: some of it is written, perhaps nothing synced
	Appended  Point = "appended"  // entries are synced, and nobody was told
	Trim      Point = "trim"      // a part of what is to be cut off the raft log was
	Seal      Point = "seal"      // files of history and their manifest are written, under temporary names
	Sealed    Point = "sealed"    // a window is in history, and no snapshot knows of it
	Split     Point = "split"     // some of the stores of a generation are written
	Snapshot  Point = "snapshot"  // the state of a snapshot is written, and not its manifest
	Closed    Point = "closed"    // a snapshot is whole, and the raft log not cut behind it
	Fetched   Point = "fetched"   // files and state of another node's snapshot are here, and history is not changed
	Installed Point = "installed" // history is that of another node's snapshot, and the state is not
	Put       Point = "put"       // a snapshot of another node is this one's newest, and was not restored
	Restore   Point = "restore"   // half of a snapshot is restored
	Restored  Point = "restored"  // a snapshot is restored, and the raft log behind it was not applied
)

// Points lists all.
func Points() []Point {
	return []Point{Append, Appended, Trim, Seal, Sealed, Split, Snapshot, Closed, Fetched, Installed, Put, Restore, Restored}
}
