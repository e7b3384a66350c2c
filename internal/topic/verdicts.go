package topic

// verdict is what a matcher knows about an id: two bits.
type verdict uint8

const (
	unknown verdict = iota
	none            // no match; of a partition: CoverNone
	some            // match; of a partition: CoverSome
	all             // of a partition: CoverAll
)

const (
	verdictBits     = 2
	verdictsPerWord = 64 / verdictBits
	pageBits        = 12
	pageVerdicts    = 1 << pageBits
	pageWords       = pageVerdicts / verdictsPerWord // a page is 1 KiB
)

// verdicts maps numbers to verdicts in pages that exist only where something was set.
type verdicts struct {
	pages []*[pageWords]uint64
}

func (v *verdicts) get(n uint32) verdict {
	page := n >> pageBits
	if int(page) >= len(v.pages) || v.pages[page] == nil {
		return unknown
	}
	word := v.pages[page][n%pageVerdicts/verdictsPerWord]
	return verdict(word>>(n%verdictsPerWord*verdictBits)) & 3
}

// set records the verdict of a number that has none yet.
func (v *verdicts) set(n uint32, x verdict) {
	page := int(n >> pageBits)
	if page >= len(v.pages) {
		v.pages = append(v.pages, make([]*[pageWords]uint64, page+1-len(v.pages))...)
	}
	if v.pages[page] == nil {
		v.pages[page] = new([pageWords]uint64)
	}
	v.pages[page][n%pageVerdicts/verdictsPerWord] |= uint64(x) << (n % verdictsPerWord * verdictBits)
}
