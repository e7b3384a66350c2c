//go:build bug_fast_heartbeat

package bugs

// FastHeartbeat: heartbeats take raft's fast path, beside its main loop.
const FastHeartbeat = true
