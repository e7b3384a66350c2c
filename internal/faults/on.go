//go:build faults

package faults

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Variable names the file that says which faults are in force.
const Variable = "CANTUS_FAULTS"

// fresh is how long what the file said is taken to hold.
const fresh = 10 * time.Millisecond

// state is what the file said. It belongs to the process, as clock and disk do.
var state struct {
	sync.Mutex
	read        time.Time
	clock       time.Duration
	write, sync syscall.Errno // 0: works
	slow        time.Duration
	hang        bool
	stop        Point  // "": nowhere
	left        int    // how often stop is passed by before
	armed       string // the line that said so
}

// stoppedSuffix ends the name of the file that tells that the process has stopped, and where.
const stoppedSuffix = ".stopped"

// load reads the file if what is known is old.
func load() {
	if time.Since(state.read) < fresh {
		return
	}
	state.read = time.Now()
	state.clock, state.write, state.sync, state.slow, state.hang = 0, 0, 0, 0, false
	text, err := os.ReadFile(os.Getenv(Variable))
	if err != nil || !strings.Contains(string(text), "stop ") {
		state.stop, state.armed = "", ""
	}
	if err != nil {
		return // no file, no fault
	}
	for line := range strings.Lines(string(text)) {
		if err := set(strings.Fields(line)); err != nil {
			fmt.Fprintf(os.Stderr, "faults: %q: %v\n", line, err)
		}
	}
}

func set(words []string) (err error) {
	switch {
	case len(words) == 0:
	case len(words) == 2 && words[0] == "clock":
		state.clock, err = time.ParseDuration(words[1])
	case len(words) == 2 && words[0] == "write":
		state.write = errno(words[1])
	case len(words) == 2 && words[0] == "sync" && words[1] == "hang":
		state.hang = true
	case len(words) == 2 && words[0] == "sync":
		state.sync = errno(words[1])
	case len(words) == 3 && words[0] == "sync" && words[1] == "slow":
		state.slow, err = time.ParseDuration(words[2])
	case len(words) == 3 && words[0] == "stop":
		if armed := strings.Join(words, " "); armed != state.armed {
			state.armed, state.stop = armed, Point(words[1])
			state.left, err = strconv.Atoi(words[2])
		}
	default:
		err = fmt.Errorf("no such fault")
	}
	return err
}

func errno(name string) syscall.Errno {
	if name == "enospc" {
		return syscall.ENOSPC
	}
	return syscall.EIO
}

// Now is the node's clock.
func Now() time.Time {
	state.Lock()
	defer state.Unlock()
	load()
	return time.Now().Add(state.clock)
}

// Write is called before a write. An error is the write's.
func Write() error {
	state.Lock()
	defer state.Unlock()
	load()
	if state.write != 0 {
		return state.write
	}
	return nil
}

// Sync is called before a sync and waits as long as that is to take. An error is the sync's.
func Sync() error {
	for waited := false; ; time.Sleep(fresh) {
		state.Lock()
		load()
		slow, hang, errno := state.slow, state.hang, state.sync
		state.Unlock()
		if hang {
			continue
		}
		if slow > 0 && !waited {
			waited = true
			time.Sleep(slow)
		}
		if errno != 0 {
			return errno
		}
		return nil
	}
}

// Pass is called at a point. If the process is to end there, it stops, all of it, and never goes on: whoever wants it to end kills
// it, or cuts its power.
func Pass(p Point) {
	if passes(p) {
		stop(p)
	}
}

// During calls do, in the midst of which the process may be to end: somewhere in its first two milliseconds.
func During(p Point, do func() error) error {
	if passes(p) {
		time.AfterFunc(time.Duration(rand.Int64N(int64(2*time.Millisecond))), func() { stop(p) })
	}
	return do()
}

// passes tells whether the process is to end now.
func passes(p Point) bool {
	state.Lock()
	defer state.Unlock()
	load()
	if state.stop != p {
		return false
	}
	state.left--
	return state.left < 0
}

func stop(p Point) {
	if err := os.WriteFile(os.Getenv(Variable)+stoppedSuffix, []byte(p), 0o644); err != nil {
		fmt.Fprintf(os.Stderr, "faults: stop at %s: %v\n", p, err)
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	select {} // the signal may take a moment to reach this thread
}
