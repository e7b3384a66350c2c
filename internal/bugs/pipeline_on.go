//go:build bug_pipeline

package bugs

// Pipeline: so many more appends are under way at once; with one, as raft does by default, they are pipelined.
const Pipeline = 1
