//go:build faults

package faults

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain is also the process that is to stop: with an argument of ours it comes by points for ever.
func TestMain(m *testing.M) {
	if os.Getenv("FAULTS_PASS") == "" {
		os.Exit(m.Run())
	}
	for {
		Pass(Seal)
		Pass(Sealed)
		time.Sleep(time.Millisecond)
	}
}

// TestStop: a process stops where and when it is told to, and says so; it does nothing more.
func TestStop(t *testing.T) {
	path := filepath.Join(t.TempDir(), "faults")
	if err := os.WriteFile(path, []byte("clock 3h\nstop sealed 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "FAULTS_PASS=1", Variable+"="+path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	wait := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("never: " + what)
			}
		}
	}
	wait("it says that it stops", func() bool {
		b, err := os.ReadFile(path + stoppedSuffix)
		return err == nil && string(b) == string(Sealed)
	})
	wait("it is stopped", func() bool {
		var s syscall.WaitStatus
		pid, err := syscall.Wait4(cmd.Process.Pid, &s, syscall.WUNTRACED|syscall.WNOHANG, nil)
		return err == nil && pid == cmd.Process.Pid && s.Stopped()
	})
}

// TestFile: what the file says is in force soon, and ends with it; a line that says nothing sensible does no harm.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "faults")
	t.Setenv(Variable, path)
	say := func(lines ...string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * fresh)
	}
	say("clock 3h", "write enospc", "sync eio", "nonsense", "stop seal")
	if d := time.Until(Now()); d < 2*time.Hour {
		t.Errorf("the clock is ahead by %v", d)
	}
	if err := Write(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write: %v", err)
	}
	if err := Sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("sync: %v", err)
	}
	Pass(Seal) // its line lacks a number
	say()
	if err := errors.Join(Write(), Sync()); err != nil || time.Until(Now()) > time.Hour {
		t.Errorf("after the faults: %v", err)
	}
}
