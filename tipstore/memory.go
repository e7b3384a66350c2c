package tipstore

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const hugePageBytes = 2 << 20

// memory hands out zeroed stretches that the garbage collector neither scans nor moves. It belongs to the writer.
type memory struct {
	heap   bool     // from the Go heap: what the race detector can watch
	mapped [][]byte // all handed out from outside the heap; freed together by release
}

// take returns n zeroed bytes, 8-aligned at least. They live until release.
func (m *memory) take(n int) ([]byte, error) {
	if m.heap {
		words := make([]uint64, (n+7)/8)
		return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), n), nil
	}
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("tipstore: map %d bytes of anonymous memory: %w; lower tip.size or raise the memory limit", n, err)
	}
	if n >= hugePageBytes {
		// Fewer misses of the address cache when a merge jumps about. A kernel without huge pages refuses; all works then too.
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	}
	m.mapped = append(m.mapped, b)
	return b, nil
}

// release gives all memory back. Nobody may hold any of it.
func (m *memory) release() error {
	var errs []error
	for _, b := range m.mapped {
		if err := unix.Munmap(b); err != nil {
			errs = append(errs, fmt.Errorf("tipstore: unmap %d bytes: %w", len(b), err))
		}
	}
	m.mapped = nil
	return errors.Join(errs...)
}
