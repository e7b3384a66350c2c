// Package disk gives a node a disk that can lose power and run full.
//
// Folder is a plain folder: it can do neither, and needs no rights. Image is an ext4 file system in a file behind a loop device;
// it needs root. A power cut is the file system's own emergency stop, which drops everything that was not synced, as the
// machine's memory would; the journal is replayed at the next mount. A full disk is full: the system call says so.
//
// It promises that Close unmounts and removes what was made. Flipping bits and cutting files is done on files, see package
// nemesis.
package disk

import (
	"errors"
	"os"
)

// ErrUnsupported: this disk cannot make this fault.
var ErrUnsupported = errors.New("this disk cannot do that")

// Disk holds one node's data folder.
type Disk interface {
	// Path is a folder that exists and is the node's, also after PowerCut and Wipe.
	Path() string
	// PowerCut loses what was not synced. The node's process must be stopped or dead, and must be dead before Restore.
	PowerCut() error
	// Restore makes the folder usable again after PowerCut.
	Restore() error
	// Fill leaves so many bytes free; Free gives back what Fill took.
	Fill(left int64) error
	Free() error
	// Wipe empties the folder, as a new disk is. The node's process must be dead.
	Wipe() error
	// Close removes the disk.
	Close() error
}

// Folder is a Disk without faults.
type Folder struct{ dir string }

// NewFolder makes the folder dir.
func NewFolder(dir string) (*Folder, error) { return &Folder{dir}, os.MkdirAll(dir, 0o755) }

// Path is the folder.
func (f *Folder) Path() string { return f.dir }

// PowerCut is not supported.
func (f *Folder) PowerCut() error { return ErrUnsupported }

// Restore does nothing.
func (f *Folder) Restore() error { return nil }

// Fill is not supported.
func (f *Folder) Fill(int64) error { return ErrUnsupported }

// Free does nothing.
func (f *Folder) Free() error { return nil }

// Wipe removes what is in the folder.
func (f *Folder) Wipe() error { return empty(f.dir) }

// Close removes the folder.
func (f *Folder) Close() error { return os.RemoveAll(f.dir) }
