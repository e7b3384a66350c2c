package network

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// owner finds the node that dialed a connection by the address it dialed from.
func (p *Proxy) owner(addr *net.TCPAddr) int {
	inode := inodeOf(addr)
	if inode == "" {
		return foreign
	}
	p.mu.Lock()
	pids := make(map[int]int, len(p.nodes))
	for node, n := range p.nodes {
		pids[node] = n.pid()
	}
	p.mu.Unlock()
	for node, pid := range pids {
		if pid > 0 && hasSocket(pid, inode) {
			return node
		}
	}
	return foreign
}

// inodeOf looks a local IPv4 address up in the kernel's table of sockets; "" if it is not there.
func inodeOf(addr *net.TCPAddr) string {
	table, err := os.ReadFile("/proc/net/tcp")
	v4 := addr.IP.To4()
	if err != nil || v4 == nil {
		return ""
	}
	local := fmt.Sprintf("%08X:%04X", binary.LittleEndian.Uint32(v4), addr.Port)
	for line := range strings.Lines(string(table)) {
		// sl local_address rem_address st queues timer retrnsmt uid timeout inode
		if fields := strings.Fields(line); len(fields) > 9 && fields[1] == local {
			return fields[9]
		}
	}
	return ""
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
