package network

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ownerTries and ownerPause bound the search for who dialed. The kernel shows its table of sockets piece by piece: one that comes or goes
// meanwhile can hide another.
const (
	ownerTries = 50
	ownerPause = 2 * time.Millisecond
)

// owner finds the node that dialed a connection by its two ends, as the dialer sees them. A connection of this process, and one that ends
// before its dialer is found, is foreign.
func (p *Proxy) owner(local, remote *net.TCPAddr) int {
	for tries := 1; ; tries++ {
		inode := inodeOf(local, remote)
		if node, found := p.holder(inode); found {
			return node
		}
		if tries == ownerTries || inode != "" && hasSocket(os.Getpid(), inode) {
			return foreign
		}
		select {
		case <-time.After(ownerPause):
		case <-p.ctx.Done():
			return foreign
		}
	}
}

// holder is the node whose process has a socket open.
func (p *Proxy) holder(inode string) (node int, found bool) {
	if inode == "" {
		return 0, false
	}
	p.mu.Lock()
	pids := make(map[int]int, len(p.nodes))
	for node, n := range p.nodes {
		pids[node] = n.pid()
	}
	p.mu.Unlock()
	for node, pid := range pids {
		if pid > 0 && hasSocket(pid, inode) {
			return node, true
		}
	}
	return 0, false
}

// noInode is what the kernel shows of sockets that are nobody's any more.
const noInode = "0"

// inodeOf looks an IPv4 connection of this machine up in the kernel's table of sockets; "" if it is not there. Both ends count: a port
// that dials here may have dialed elsewhere, too.
func inodeOf(local, remote *net.TCPAddr) string {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil || local.IP.To4() == nil || remote.IP.To4() == nil {
		return ""
	}
	from, to := tableAddr(local), tableAddr(remote)
	for line := range strings.Lines(string(table)) {
		// sl local_address rem_address st queues timer retrnsmt uid timeout inode
		if fields := strings.Fields(line); len(fields) > 9 && fields[1] == from && fields[2] == to && fields[9] != noInode {
			return fields[9]
		}
	}
	return ""
}

// tableAddr is an IPv4 address as the table of sockets has it.
func tableAddr(a *net.TCPAddr) string {
	return fmt.Sprintf("%08X:%04X", binary.LittleEndian.Uint32(a.IP.To4()), a.Port)
}

// hasSocket tells whether a process has a socket open.
func hasSocket(pid int, inode string) bool {
	want := "socket:[" + inode + "]"
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, fd := range fds {
		if to, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil && to == want {
			return true
		}
	}
	return false
}
