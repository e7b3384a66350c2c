// Package leak fails a test binary whose tests leave goroutines behind.
//
// It is goleak with patience: libraries leave goroutines that end by their own timeouts, such as a probe of the gossip library that was under
// way when it was shut down. Such a goroutine ends and is no leak; one that is there after all the patience is.
package leak

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is above every timeout after which a library's goroutine ends by itself: gossip reads a stream for 10 s.
const patience = 30 * time.Second

// VerifyTestMain runs the tests of a package and exits: with 1 if they passed and goroutines are left. Options say which never end.
func VerifyTestMain(m *testing.M, options ...goleak.Option) {
	code := m.Run()
	if code == 0 {
		if err := find(patience, options...); err != nil {
			fmt.Fprintf(os.Stderr, "goroutines are left %v after the tests: %v\n", patience, err)
			code = 1
		}
	}
	os.Exit(code)
}

// find looks for goroutines that are left until there are none or the time is over.
func find(within time.Duration, options ...goleak.Option) error {
	for end := time.Now().Add(within); ; {
		err := goleak.Find(options...) // tries for half a second
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}
