//go:build !linux

package node

import "syscall"

func dieWithUs() *syscall.SysProcAttr { return nil }
