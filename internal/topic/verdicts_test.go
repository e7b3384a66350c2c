package topic

import (
	"testing"

	"pgregory.net/rapid"
)

func TestVerdictsAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var v verdicts
		want := map[uint32]verdict{}
		for _, n := range rapid.SliceOfN(rapid.Uint32Range(0, 5*pageVerdicts), 0, 500).Draw(t, "numbers") {
			if want[n] == unknown {
				want[n] = none + verdict(n%3)
				v.set(n, want[n])
			}
		}
		for n := range uint32(6 * pageVerdicts) {
			if v.get(n) != want[n] {
				t.Fatalf("get(%d) = %d, want %d", n, v.get(n), want[n])
			}
		}
	})
}
