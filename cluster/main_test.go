package cluster

import (
	stdflag "flag"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/cantus-bus/cantus/internal/leak"
)

// shortChecks is how many random cases a property gets with -short: for builds that are many times slower.
const shortChecks = "20"

func TestMain(m *testing.M) {
	stdflag.Parse()
	if testing.Short() {
		if err := stdflag.Set("rapid.checks", shortChecks); err != nil {
			os.Exit(2)
		}
	}
	// bolt leaves this one behind when it meets a damaged page as it opens a file; the node then refuses to start.
	leak.VerifyTestMain(m, goleak.IgnoreAnyFunction("go.etcd.io/bbolt.(*DB).freepages.func2"))
}
