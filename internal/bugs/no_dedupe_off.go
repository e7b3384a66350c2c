//go:build !bug_no_dedupe

package bugs

// NoDedupe: what a producer sends again is published again.
const NoDedupe = false
