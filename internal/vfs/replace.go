package vfs

import (
	"errors"
	"io"
	"path/filepath"
)

// TempSuffix ends the name of a file that is being written. Whoever opens a folder may remove files of that name: nobody reads them.
const TempSuffix = ".tmp"

// Replace gives a file other bytes, or makes it: after a crash at any moment it has the old bytes or the new ones, whole, and the new
// ones once Replace has returned nil. After an error the file is as before and the temporary one is gone, unless it was the folder's sync that failed:
// then the new bytes are there, and a crash may bring the old ones back.
//
// Two calls for the same path at once are the caller's to prevent. DESIGN.md has the argument.
func Replace(f FS, path string, b []byte) error {
	err := WriteTemp(f, path, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
	if err != nil {
		return err
	}
	return Publish(f, path+TempSuffix, path)
}

// WriteTemp is the first half of Replace, for a caller who has to do something between the two, or who does not have all bytes at
// once: it makes path+TempSuffix with what fill writes, and makes the bytes durable. After an error, fill's or the disk's, the temporary
// file is removed.
func WriteTemp(f FS, path string, fill func(io.Writer) error) error {
	file, err := f.Create(path + TempSuffix)
	if err != nil {
		return err
	}
	if err = fill(file); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		_ = f.Remove(path + TempSuffix) // what has failed says more
	}
	return err
}

// Publish is the second half of Replace: a file whose bytes are durable gets its name, in place of the file that has it, for good when
// Publish returns nil. Both names are in one folder. If the file cannot be renamed it is removed.
func Publish(f FS, from, to string) error {
	if err := f.Rename(from, to); err != nil {
		_ = f.Remove(from) // what has failed says more
		return err
	}
	return f.SyncDir(filepath.Dir(to))
}
