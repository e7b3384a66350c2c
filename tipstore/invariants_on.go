//go:build invariants

package tipstore

// invariants turns on checks of whole structures after the operations that change them.
const invariants = true
