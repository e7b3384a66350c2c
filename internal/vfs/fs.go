package vfs

import "io"

// File is one open file. ReadAt may be called by several goroutines at once, everything else by one.
type File interface {
	io.ReaderAt
	io.Writer // appends: files are written from the beginning to the end
	io.Closer

	// Sync makes all that was written durable.
	Sync() error
	// Size is the file's length in bytes.
	Size() (int64, error)
	// Prefetch tells that a range will be read soon. It starts the read where the system can, and never waits for it.
	Prefetch(offset, length int64)
}

// FS is a file system. Names are paths as the system has them. A name that does not exist gives an error for which
// errors.Is(err, fs.ErrNotExist) holds. Methods may be called by several goroutines at once.
type FS interface {
	// Create makes a file for writing and reading, empty even if the name existed.
	Create(name string) (File, error)
	// Open opens a file for reading at scattered places.
	Open(name string) (File, error)
	// OpenAppend opens a file for reading and for writing at its end; it makes one if there is none.
	OpenAppend(name string) (File, error)
	// Remove removes a file.
	Remove(name string) error
	// Rename gives a file another name, whose file is replaced if there is one.
	Rename(from, to string) error
	// List returns the names in a folder, without the folder, in byte order.
	List(dir string) ([]string, error)
	// MkdirAll makes a folder and those above it.
	MkdirAll(dir string) error
	// SyncDir makes the names in a folder durable.
	SyncDir(dir string) error
}
