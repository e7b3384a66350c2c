package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// adviseRandom switches the kernel's own read-ahead off: merges read in many places of a file at once, where it would
// guess wrong and read what nobody wants. Advice that is refused costs speed only.
func adviseRandom(f *os.File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM) }

func advisePrefetch(f *os.File, offset, length int64) {
	_ = unix.Fadvise(int(f.Fd()), offset, length, unix.FADV_WILLNEED)
}
