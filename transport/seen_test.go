package transport

import (
	"testing"

	"pgregory.net/rapid"
)

func TestSeenIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s seen
		model := map[uint32]bool{}
		// Around the edges of words and pages, and far out.
		ids := rapid.SliceOf(rapid.OneOf(rapid.Uint32Max(130), rapid.Uint32Range(pageIDs-3, pageIDs+3), rapid.Uint32Max(16<<20)))
		for _, id := range ids.Draw(t, "ids") {
			if isNew := s.add(id); isNew == model[id] {
				t.Fatalf("id %d: new is %v", id, isNew)
			}
			model[id] = true
		}
	})
}
