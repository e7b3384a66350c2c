// Package subtree keeps a stream's history on disk: windows, which hold the messages of a stretch of the stream grouped by
// partition, and generations, which hold those of several windows grouped by the stores of a split plan.
//
// A Store is a folder of such files and a manifest that names them. Seal adds a window, Rewrite replaces windows or older
// generations by a new generation; both take effect by one rename. A Cursor reads the messages that a filter matches, in
// seq order, from whatever files hold them now.
//
// The package promises: what Seal was given is read back, in order, none missing, none twice, none foreign, however it was
// rewritten since; after a crash history is as before or as after the operation that was running; the bytes of a file
// depend on its messages and its plan only, so that they are equal on all replicas; bytes that fail a check are an error
// that names file and offset and are never served; memory and open files do not grow with the history's size.
//
// It also drops the oldest files, gives whole files to other nodes and takes theirs, verified, resumable and installed by one
// rename, reads all of itself for damage, and keeps damaged bytes aside.
//
// It does not decide where windows end, what a plan says or what to drop, keeps no message that was not sealed, starts no goroutine, and
// does not know raft or the wire. DESIGN.md holds the format and the argument for crashes.
package subtree
