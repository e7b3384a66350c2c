package vfs

import "io"

// ReadFile reads a whole file, or the first most bytes of a longer one: a caller for whom that is an error gives one more than it takes.
func ReadFile(f FS, path string, most int64) ([]byte, error) {
	file, err := f.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(size, most))
	_, err = io.ReadFull(io.NewSectionReader(file, 0, size), b)
	return b, err
}
