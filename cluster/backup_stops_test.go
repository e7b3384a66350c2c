package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cantus-bus/cantus/internal/vfs"
)

// stopping is a file system on which nothing changes any more after so many steps: a full disk, or a process that ended there.
type stopping struct {
	vfs.FS
	left *int
}

var errStopped = errors.New("no space left on device, says the test")

func (s stopping) step() error {
	if *s.left--; *s.left < 0 {
		return errStopped
	}
	return nil
}

func (s stopping) Create(name string) (vfs.File, error) {
	if err := s.step(); err != nil {
		return nil, err
	}
	f, err := s.FS.Create(name)
	return stoppingFile{f, s}, err
}

func (s stopping) Rename(from, to string) error {
	if err := s.step(); err != nil {
		return err
	}
	return s.FS.Rename(from, to)
}

func (s stopping) Remove(name string) error {
	if err := s.step(); err != nil {
		return err
	}
	return s.FS.Remove(name)
}

func (s stopping) SyncDir(dir string) error {
	if err := s.step(); err != nil {
		return err
	}
	return s.FS.SyncDir(dir)
}

type stoppingFile struct {
	vfs.File
	fs stopping
}

func (f stoppingFile) Write(b []byte) (int, error) {
	if err := f.fs.step(); err != nil {
		return 0, err
	}
	return f.File.Write(b)
}

func (f stoppingFile) Sync() error {
	if err := f.fs.step(); err != nil {
		return err
	}
	return f.File.Sync()
}

// TestRestoreStopsAtEveryStep: a restore that ends, or finds the disk full, at any write, sync, rename or removal leaves a folder on which no node
// starts before a restore into it has ended, and that one makes the whole.
func TestRestoreStopsAtEveryStep(t *testing.T) {
	f, dir := backupFeeder(t), t.TempDir()
	mustBackUp(t, &streamSource{t: t, f: f}, dir)
	for steps := 0; ; steps++ {
		data, left := filepath.Join(t.TempDir(), "data"), steps
		_, err := restoreBackup(t.Context(), stopping{vfs.OS(), &left}, dir, data, nil)
		if err == nil {
			if steps < 20 {
				t.Errorf("a restore of %d steps: the test shows nothing", steps)
			}
			break
		}
		if !errors.Is(err, errStopped) {
			t.Fatalf("stopped after %d steps: %v", steps, err)
		}
		_, refused := os.Stat(filepath.Join(data, restoringFile))
		_, begun := os.Stat(filepath.Join(data, historyDir))
		if folder, err := openFolder(data); err == nil {
			if _, last := os.Stat(filepath.Join(data, identityFile)); refused == nil || begun == nil && last != nil {
				t.Errorf("stopped after %d steps: a node would start on half a backup", steps)
			}
			if err := folder.close(); err != nil {
				t.Fatal(err)
			}
			continue // nothing was there yet, or all
		}
		r, err := RestoreBackup(t.Context(), dir, data, nil)
		if err != nil {
			t.Fatalf("again after %d steps: %v", steps, err)
		}
		folder, err := openFolder(data)
		if err != nil {
			t.Fatal(err)
		}
		if id := folder.identity(); id.NodeID != r.NodeID || id.ClusterID != r.ClusterID {
			t.Errorf("after %d steps: identity %+v, result %+v", steps, id, r)
		}
		if err := folder.close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBackupOfANewerVersion: its document says so, and what to do.
func TestBackupOfANewerVersion(t *testing.T) {
	f, dir := backupFeeder(t), t.TempDir()
	mustBackUp(t, &streamSource{t: t, f: f}, dir)
	path := filepath.Join(dir, backupDoc)
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	newer := bytes.Replace(doc, fmt.Appendf(nil, `"format": %d`, backupFormat), fmt.Appendf(nil, `"format": %d`, backupFormat+1), 1)
	if err := os.WriteFile(path, newer, 0o600); err != nil || bytes.Equal(doc, newer) {
		t.Fatalf("the document names no format: %v", err)
	}
	_, checked := CheckBackup(t.Context(), dir, nil)
	_, restored := RestoreBackup(t.Context(), dir, filepath.Join(t.TempDir(), "d"), nil)
	for _, err := range []error{checked, restored} {
		if !errors.Is(err, ErrBackup) || !strings.Contains(err.Error(), "newer version") {
			t.Errorf("%v", err)
		}
	}
}
