package e2e

import (
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/cantus-bus/cantus/internal/vfs"
)

// countingFS counts the bytes that are read of the files of history, whoever reads them and whatever for.
type countingFS struct {
	vfs.FS
	read atomic.Int64
}

func (c *countingFS) Create(name string) (vfs.File, error)     { return c.file(name, c.FS.Create) }
func (c *countingFS) Open(name string) (vfs.File, error)       { return c.file(name, c.FS.Open) }
func (c *countingFS) OpenAppend(name string) (vfs.File, error) { return c.file(name, c.FS.OpenAppend) }

func (c *countingFS) file(name string, open func(string) (vfs.File, error)) (vfs.File, error) {
	f, err := open(name)
	if err != nil || !strings.HasSuffix(filepath.Dir(name), "history") {
		return f, err
	}
	return countedFile{f, &c.read}, nil
}

type countedFile struct {
	vfs.File
	read *atomic.Int64
}

func (f countedFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	f.read.Add(int64(n))
	return n, err
}
