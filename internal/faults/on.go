//go:build faults

package faults

import (
	"fmt"
	"os"
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
}

// load reads the file if what is known is old.
func load() {
	if time.Since(state.read) < fresh {
		return
	}
	state.read = time.Now()
	state.clock, state.write, state.sync, state.slow, state.hang = 0, 0, 0, 0, false
	text, err := os.ReadFile(os.Getenv(Variable))
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
