//go:build race || !amd64

package tipstore

import "sync/atomic"

// storeEntry writes an entry where a reader may be looking. It becomes visible with the next store of the fence.
func storeEntry(p *uint32, v uint32) { atomic.StoreUint32(p, v) }

// clearEntries zeroes a block's entries. A reader with an old reference may be looking, and must see the generation that
// free moved before it sees any of these stores; hence their order matters.
func clearEntries(b blockPtr, n uint32) {
	for i := range n {
		atomic.StoreUint32(b.entry(i), 0)
	}
}
