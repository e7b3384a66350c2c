//go:build !bug_ack_early

package bugs

// AckEarly: a publish is acknowledged when it is proposed, before it is committed.
const AckEarly = false
