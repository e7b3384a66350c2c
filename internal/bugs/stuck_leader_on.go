//go:build bug_stuck_leader

package bugs

// StuckLeader: a leader that refuses all entries after a transfer goes on leading.
const StuckLeader = true
