package check

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/cantus-bus/cantus/jepsen/history"
)

// judge runs all checks and insists on a history that makes sense.
func judge(t rapid.TB, h history.Source) Report {
	t.Helper()
	r, err := All(h)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Malformed) > 0 {
		t.Fatalf("malformed: %v", r.Malformed)
	}
	return r
}

func TestGoodHistoriesPass(t *testing.T) {
	looked := map[Name]uint64{}
	rapid.Check(t, func(t *rapid.T) {
		r := judge(t, generate(rapid.Uint64().Draw(t, "seed")))
		if !r.OK() {
			t.Fatal(r.String())
		}
		for _, v := range r.Checks {
			looked[v.Name] += v.Looked
			if v.Undecided != "" {
				t.Fatalf("%s: %s", v.Name, v.Undecided)
			}
		}
	})
	for _, p := range promises {
		if looked[p.name] == 0 {
			t.Errorf("%s: no history had anything for it to look at", p.name)
		}
	}
}
