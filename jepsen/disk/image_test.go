//go:build linux

package disk

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestImage: what was synced outlives a power cut, what was not does not; a full disk says so and a freed one takes more.
func TestImage(t *testing.T) {
	if !CanImage() {
		t.Skip("needs root, mkfs.ext4 and loop devices")
	}
	d, err := NewImage(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	synced, lost := filepath.Join(d.Path(), "synced"), filepath.Join(d.Path(), "lost")
	write := func(name, text string, sync bool) error {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		if err == nil && sync {
			err = f.Sync()
		}
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(write(synced, "kept", true), write(synced, " lost", false), write(lost, "x", false), d.PowerCut(), d.Restore()); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(synced); err != nil || string(b) != "kept" {
		t.Errorf("synced file after the power cut: %q, %v", b, err)
	}
	if b, err := os.ReadFile(lost); err == nil && len(b) > 0 {
		t.Errorf("unsynced file after the power cut: %q", b)
	}
	if err := d.Fill(0); err != nil {
		t.Fatal(err)
	}
	big := string(make([]byte, 1<<20))
	if err := write(lost, big, true); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write to a full disk: %v", err)
	}
	if err := errors.Join(d.Free(), write(lost, big, true), d.Wipe()); err != nil {
		t.Error(err)
	}
	if list, err := os.ReadDir(d.Path()); err != nil || len(list) != 0 {
		t.Errorf("wiped: %v, %v", list, err)
	}
}
