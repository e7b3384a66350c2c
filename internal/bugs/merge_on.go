//go:build bug_merge

package bugs

// Merge: a merge drains one list after the other, whatever the order of their records.
const Merge = true
