// Package bubble runs tests in virtual time, and ends the process where that stands still.
//
// In a bubble of testing/synctest a pause costs nothing, and time moves on when everybody in it waits. So where somebody runs in a circle
// without a pause it never does, and the test would not end. The watch for that must be kept outside of the bubble, in real time. It
// promises that the process ends with 1 and shows what keeps time from moving on before all else. It cannot tell a circle from work that
// takes longer than the watch.
package bubble

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Patience is how long, in real time, a bubble may take.
const Patience = time.Minute

// Test runs f in a bubble. what is named if it does not end within Patience.
func Test(t *testing.T, what string, f func(*testing.T)) {
	t.Helper()
	test(t, what, Patience, f)
}

func test(t *testing.T, what string, limit time.Duration, f func(*testing.T)) {
	t.Helper()
	defer time.AfterFunc(limit, func() {
		var all bytes.Buffer
		_ = pprof.Lookup("goroutine").WriteTo(&all, 2)
		fmt.Fprintf(os.Stderr, "%s does not end: virtual time stands still\n%s\n", what, busyFirst(all.String()))
		os.Exit(1)
	}).Stop()
	synctest.Test(t, f)
}

// busyFirst moves the stacks of goroutines that keep virtual time from moving on before the others.
func busyFirst(stacks string) string {
	list := strings.Split(stacks, "\n\n")
	slices.SortStableFunc(list, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return strings.Join(list, "\n\n")
}

func rank(stack string) int {
	if state, _, _ := strings.Cut(stack, "\n"); strings.Contains(state, "synctest bubble") && !strings.Contains(state, "(durable)") {
		return 0
	}
	return 1
}
