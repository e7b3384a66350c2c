//go:build !race && amd64

package tipstore

import "unsafe"

// storeEntry writes an entry where a reader may be looking. A plain store will do here: the processor keeps stores in
// order, a word is never torn, and readers take nothing at or above the fence, which is stored atomically afterwards. It
// saves the locked exchange of an atomic store for every record.
func storeEntry(p *uint32, v uint32) { *p = v }

// clearEntries zeroes a block's entries; stores stay behind that of the generation in free.
func clearEntries(b blockPtr, n uint32) {
	clear(unsafe.Slice(b.entry(0), n))
}
