//go:build faults

package vfs

import "github.com/cantus-bus/cantus/internal/faults"

// hurt gives a file system the faults of a test build.
func hurt(f FS) FS { return hurtFS{f} }

type hurtFS struct{ FS }

func (f hurtFS) Create(name string) (File, error) {
	if err := faults.Write(); err != nil {
		return nil, pathError(OpCreate, name, err)
	}
	return wrap(f.FS.Create(name))
}

func (f hurtFS) OpenAppend(name string) (File, error) {
	if err := faults.Write(); err != nil {
		return nil, pathError(OpCreate, name, err)
	}
	return wrap(f.FS.OpenAppend(name))
}

func (f hurtFS) Rename(from, to string) error {
	if err := faults.Write(); err != nil {
		return pathError(OpRename, from, err)
	}
	return f.FS.Rename(from, to)
}

func (f hurtFS) SyncDir(dir string) error {
	if err := faults.Sync(); err != nil {
		return pathError(OpSyncDir, dir, err)
	}
	return f.FS.SyncDir(dir)
}

type hurtFile struct{ File }

func wrap(f File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return hurtFile{f}, nil
}

// Write writes the first half of what it cannot write, as a disk that runs full does.
func (f hurtFile) Write(b []byte) (int, error) {
	if err := faults.Write(); err != nil {
		n, werr := f.File.Write(b[:len(b)/2])
		if werr != nil {
			return n, werr
		}
		return n, err
	}
	return f.File.Write(b)
}

func (f hurtFile) Sync() error {
	if err := faults.Sync(); err != nil {
		return err
	}
	return f.File.Sync()
}
