package node

import "syscall"

// dieWithUs makes the kernel kill a node when its harness is killed.
func dieWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
