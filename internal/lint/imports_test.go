package lint

import (
	"strconv"
	"strings"
	"testing"
)

// floors orders the packages: a package may import only what stands on a lower floor.
var floors = map[string]int{
	"cmd/cantus": 60,

	"jepsen/cmd/jepsen": 75, // runs the broker from outside
	"jepsen/run":        74,
	"jepsen/workload":   73,
	"jepsen/nemesis":    73,
	"jepsen/node":       72,
	"jepsen/network":    71,
	"jepsen/disk":       71,

	"internal/demo":   58, // starts nodes and drives them through the client
	"internal/e2e":    59, // tests of the whole
	"internal/daemon": 57, // puts a node together from its parts
	"internal/load":   55, // drives a cluster through the client

	"transport/http": 51,
	"transport":      50,
	"client":         50,

	"cluster":              40,
	"fsm":                  30,
	"tipstore":             20,
	"tipstore/losertree":   19,
	"tipstore/profile":     22, // compares the tip with the queues of heapbench
	"subtree":              20,
	"subtree/plan":         15,
	"subtree/plan/cluster": 12,

	"jepsen/check": 12,

	"internal/wire":   11,
	"internal/record": 10,
	"internal/topic":  10,

	"internal/config":   2,
	"internal/contexts": 1,
	"internal/control":  1,
	"internal/dataset":  1,
	"internal/output":   1,
	"internal/units":    1,
	"internal/vfs":      1,
	"internal/bubble":   1,
	"internal/leak":     1,
	"internal/lint":     1,
	"internal/loopback": 1,
	"internal/pause":    1,
	"jepsen/history":    1,
	"configs":           1,
	"internal/bugs":     0, // constants that build tags set
	"internal/faults":   0,
	"internal/stall":    0,
}

// floorOf finds the floor of a package by its longest listed prefix: a package below another may import the one above it.
func floorOf(pkg string) (floor int, ok bool) {
	for prefix := pkg; ; {
		if f, listed := floors[prefix]; listed {
			if prefix != pkg {
				f++
			}
			return f, true
		}
		cut := strings.LastIndexByte(prefix, '/')
		if cut < 0 {
			return 0, false
		}
		prefix = prefix[:cut]
	}
}

// TestImportsGoDown: tests are free to look sideways and up, shipped code is not.
func TestImportsGoDown(t *testing.T) {
	tree := mustLoad(t)
	for _, s := range tree.sources {
		from, ok := floorOf(s.pkg)
		if !ok {
			t.Errorf("%s: package %s has no floor: add it to floors in internal/lint/imports_test.go, above all that it imports", s.path, s.pkg)
			continue
		}
		if s.test {
			continue
		}
		for _, spec := range s.parsed.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			imported, ours := strings.CutPrefix(name, module+"/")
			if !ours {
				continue
			}
			if to, _ := floorOf(imported); to >= from {
				t.Errorf("%s: %s (floor %d) imports %s (floor %d): imports go down only; move what both need to a lower floor, or pass it in from above",
					tree.where(spec.Pos()), s.pkg, from, imported, to)
			}
		}
	}
}
