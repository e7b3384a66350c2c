//go:build !invariants

package tipstore

const invariants = false
