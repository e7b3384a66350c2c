package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	imageBytes = 1 << 30 // sparse: only what the node writes takes room

	// EXT4_IOC_SHUTDOWN and its flag for "do not even write the journal", from the kernel's uapi/linux/ext4.h.
	ioctlShutdown     = 0x8004587d
	shutdownNoJournal = 2

	detachWait = 20 * time.Second
	ballast    = "ballast" // the file that fills the disk
	dataDir    = "data"
)

// Image is an ext4 file system in a file.
type Image struct {
	file, mount string
	mounted     bool
}

// CanImage tells whether this process may mount file systems and cut their power: it is root, the tools and loop devices are here, and it has
// just done so. In a container root may not.
func CanImage() bool {
	for _, tool := range []string{"mkfs.ext4", "losetup", "mount"} {
		if _, err := exec.LookPath(tool); err != nil {
			return false
		}
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil || os.Geteuid() != 0 {
		return false
	}
	dir, err := os.MkdirTemp("", "jepsen-disk-")
	if err != nil {
		return false
	}
	defer os.RemoveAll(dir)
	i, err := NewImage(filepath.Join(dir, "probe"))
	if err != nil {
		return false
	}
	err = errors.Join(i.PowerCut(), i.Restore())
	return errors.Join(err, i.Close()) == nil
}

// NewImage makes the file dir.ext4 and mounts it at dir.
func NewImage(dir string) (*Image, error) {
	i := &Image{file: dir + ".ext4", mount: dir}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.Create(i.file)
	if err == nil {
		err = errors.Join(f.Truncate(imageBytes), f.Close())
	}
	if err == nil {
		err = run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard", i.file)
	}
	if err == nil {
		err = i.Restore()
	}
	if err == nil {
		err = os.MkdirAll(i.Path(), 0o755)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make disk %s: %w", i.file, err), i.Close())
	}
	return i, nil
}

func run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %v: %w: %s", name, args, err, bytes.TrimSpace(out))
	}
	return nil
}

// Path is the data folder inside the file system.
func (i *Image) Path() string { return filepath.Join(i.mount, dataDir) }

// PowerCut stops the file system at once.
func (i *Image) PowerCut() error {
	d, err := os.Open(i.mount)
	if err != nil {
		return err
	}
	err = unix.IoctlSetPointerInt(int(d.Fd()), ioctlShutdown, shutdownNoJournal)
	if err = errors.Join(err, d.Close()); err != nil {
		return fmt.Errorf("cut the power of %s: %w", i.mount, err)
	}
	return nil
}

// Restore mounts the file system anew.
func (i *Image) Restore() error {
	if err := i.unmount(); err != nil {
		return err
	}
	if err := run("mount", "-o", "loop", i.file, i.mount); err != nil {
		return err
	}
	i.mounted = true
	return nil
}

// unmount also waits until nothing holds the file system: mounted before that, it would still be the stopped one.
func (i *Image) unmount() error {
	if !i.mounted {
		return nil
	}
	var err error
	for end := time.Now().Add(detachWait); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if i.mounted {
			err = run("umount", i.mount)
			i.mounted = err != nil
		}
		if !i.mounted {
			out, lerr := exec.Command("losetup", "-j", i.file).Output()
			if err = lerr; err == nil && len(out) == 0 {
				return nil
			}
		}
	}
	return errors.Join(fmt.Errorf("unmount %s: still in use after %v", i.mount, detachWait), err)
}

// Fill writes a file of what is free but left.
func (i *Image) Fill(left int64) error {
	var s unix.Statfs_t
	if err := unix.Statfs(i.mount, &s); err != nil {
		return err
	}
	size := int64(s.Bavail)*s.Bsize - left
	if size <= 0 {
		return nil
	}
	f, err := os.Create(filepath.Join(i.mount, ballast))
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, size)
	if left == 0 && errors.Is(err, unix.ENOSPC) {
		err = nil // so much was meant
	}
	return errors.Join(err, f.Close())
}

// Free removes the file that fills.
func (i *Image) Free() error {
	err := os.Remove(filepath.Join(i.mount, ballast))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Wipe empties the data folder.
func (i *Image) Wipe() error { return empty(i.Path()) }

// Close unmounts and removes file and folder.
func (i *Image) Close() error {
	if err := i.unmount(); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(i.mount), os.RemoveAll(i.file))
}
