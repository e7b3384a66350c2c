package subtree

import (
	"flag"
	"os"
	"testing"

	"github.com/cantus-bus/cantus/internal/leak"
)

// shortChecks is how many random cases a property gets with -short: for builds that are many times slower.
const shortChecks = "20"

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		if err := flag.Set("rapid.checks", shortChecks); err != nil {
			os.Exit(2)
		}
	}
	leak.VerifyTestMain(m)
}
