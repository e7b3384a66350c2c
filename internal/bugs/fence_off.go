//go:build !bug_fence

package bugs

// Fence: so many messages are passed over where a reader changes from history to the tip.
const Fence = 0
