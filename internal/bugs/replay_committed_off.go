//go:build !bug_replay_committed

package bugs

// ReplayCommitted: raft replays what it takes for committed when it starts.
const ReplayCommitted = false
