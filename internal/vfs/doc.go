// Package vfs is the little of a file system that this project's own files need, as an interface, so that tests can stop
// it at any step and look at what a power cut would have left.
//
// OS is the real one. Mem keeps files in memory and tells synced from unsynced bytes and names: Crash gives the state that
// a machine could find after a power cut.
//
// It promises the semantics of POSIX and no more: what was written is durable after the file's Sync, and a name that was
// made, renamed or removed is durable after SyncDir of its folder. It does not lock files and knows no permissions.
//
// Replace is the one way in which the project replaces a small file, so that a crash leaves the old one or the new one: DESIGN.md.
package vfs
