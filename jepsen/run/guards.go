package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Guard is something that keeps a fault of the raft library from doing harm, and the tests that fail without it.
type Guard struct {
	Tag   string // of a build without the guard, see internal/bugs
	Fault string // of the library
	Guard string
	Tests []string // in package cluster
}

// Guards lists them.
func Guards() []Guard {
	return []Guard{
		{"bug_fast_heartbeat", "a heartbeat changes term and state in a race with the main loop", "heartbeats pass through the main loop",
			[]string{"TestHeartbeatsPassThroughTheMainLoop"}},
		{"bug_pipeline", "with two appends on their way, one that fails can stop a follower for ever", "one append at a time",
			[]string{"TestAppendsAreNotPipelined"}},
		{"bug_raw_install", "a snapshot for a follower with a longer tail never ends; one that is late takes the state back", "snapshots never reach raft",
			[]string{"TestSnapshotsNeverReachRaft", "TestLateSnapshotChangesNothing", "TestLongerTailThatWasNeverCommitted"}},
		{"bug_replay_committed", "the replay of committed entries skips configurations and can hang", "it is off",
			[]string{"TestRaftReplaysNothingUncommitted", "TestSingleNodeReplaysItsLog"}},
		{"bug_stuck_leader", "a leader's flag of a transfer sticks, and it refuses everything", "such a leader ends",
			[]string{"TestStuckTransferIsNoticedWithoutPublishes"}},
		{"bug_sick_store", "a leader whose disk fails or hangs goes on leading", "the node ends, and its store takes no more writes",
			[]string{"TestStoreErrorFailsTheNode", "TestStalledStoreFailsTheNode"}},
	}
}

const guardedPackage = "github.com/cantus-bus/cantus/cluster"

// Needed tries the guard's tests with the guard and without. missed are the tests that do not notice.
func (g Guard) Needed(ctx context.Context) (missed []string, err error) {
	for _, test := range g.Tests {
		if out, err := runTest(ctx, "", test); err != nil {
			return nil, fmt.Errorf("%s, with the guard: %w\n%s", test, err, out)
		}
		out, err := runTest(ctx, g.Tag, test)
		var exit *exec.ExitError
		switch {
		case err == nil:
			missed = append(missed, test)
		case ctx.Err() != nil || !errors.As(err, &exit):
			return nil, fmt.Errorf("%s with tag %s: %w", test, g.Tag, err)
		case bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")):
			return nil, fmt.Errorf("%s with tag %s: %w\n%s", test, g.Tag, err, out)
		}
	}
	return missed, nil
}

// runTest runs one test of the module in the working folder. Without the guard it may hang: then that is how it fails.
func runTest(ctx context.Context, tags, test string) ([]byte, error) {
	args := []string{"test", "-count=1", "-timeout=90s", "-run", "^" + test + "$"}
	if tags != "" {
		args = append(args, "-tags", tags)
	}
	out, err := exec.CommandContext(ctx, "go", append(args, guardedPackage)...).CombinedOutput()
	if err == nil && strings.Contains(string(out), "no tests to run") {
		err = errors.New("there is no such test")
	}
	return out, err
}
