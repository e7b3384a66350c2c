//go:build !faults

package vfs

func hurt(f FS) FS { return f }
