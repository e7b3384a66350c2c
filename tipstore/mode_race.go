//go:build race

package tipstore

// heapByDefault: under the race detector all memory comes from the Go heap, because it does not watch mapped memory.
const heapByDefault = true
