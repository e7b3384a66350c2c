//go:build bug_sick_store

package bugs

// SickStore: a node whose raft store fails or hangs goes on.
const SickStore = true
