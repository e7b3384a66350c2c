//go:build !linux

package subtree

import (
	"os"
	"time"
)

func dropPageCache(*os.File) {}

func cpuTime() time.Duration { return 0 }
