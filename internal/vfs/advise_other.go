//go:build !linux

package vfs

import "os"

func adviseRandom(*os.File) {}

func advisePrefetch(*os.File, int64, int64) {}
