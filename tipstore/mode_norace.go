//go:build !race

package tipstore

const heapByDefault = false
