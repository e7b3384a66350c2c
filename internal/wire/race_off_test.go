//go:build !race

package wire

// raceEnabled: the race detector makes sync.Pool drop what it is given, so allocations cannot be counted.
const raceEnabled = false
