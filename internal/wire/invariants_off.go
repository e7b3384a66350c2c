//go:build !invariants

package wire

// invariants switches on checks that cost too much for production.
const invariants = false
