package transport

// seen is the set of topic ids whose names a connection was told: a bit each, in pages that exist only where ids were
// used. 4 KiB hold 32,768 ids, so a connection that reads all of 4 M topics keeps 512 KiB.
type seen struct {
	// Invariant: pages[i] is nil or holds the ids [i*pageIDs, (i+1)*pageIDs).
	pages []*[pageWords]uint64
}

const (
	pageWords = 512
	pageIDs   = pageWords * 64
)

// add puts id in and reports whether it is new.
func (s *seen) add(id uint32) bool {
	page := int(id / pageIDs)
	if page >= len(s.pages) || s.pages[page] == nil {
		s.grow(page)
	}
	word, bit := &s.pages[page][id%pageIDs/64], uint64(1)<<(id%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

func (s *seen) grow(page int) {
	for page >= len(s.pages) {
		s.pages = append(s.pages, nil)
	}
	s.pages[page] = new([pageWords]uint64)
}
