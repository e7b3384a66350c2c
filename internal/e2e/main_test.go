package e2e

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain looks for leaks. A probe of the gossip library that was under way at its shutdown ends with its own timeout, which
// nobody can wait for.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
}
