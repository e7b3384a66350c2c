//go:build bug_no_fsync

package bugs

// NoFsync: the raft log is written and not synced.
const NoFsync = true
