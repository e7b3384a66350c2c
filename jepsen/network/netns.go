package network

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// nsPrefix begins the name of every namespace of ours; the pid of its harness follows.
const nsPrefix = "jepsen-"

// Namespaces is a network of Linux network namespaces.
//
//	namespace n0          namespace n1         root namespace
//	eth0 198.18.x.1       eth0 198.18.x.2      bridge 198.18.x.254, where the harness dials from
//	   └── veth ──────────────┴── veth ────────────┘
//
// The addresses are of 198.18.0.0/15, which RFC 2544 sets aside for tests: no real network has them.
type Namespaces struct {
	tag    string // unique on this machine: pid and three random characters
	subnet string // "198.18.x."
	bridge string

	mu   sync.Mutex
	made map[int]bool  // nodes that have a namespace. Guarded by mu
	cuts map[Link]bool // Guarded by mu
}

// namespacesExist tells whether the kernel has network namespaces.
func namespacesExist() bool {
	_, err := os.Stat("/proc/self/ns/net")
	return err == nil
}

// NewNamespaces makes the bridge. It first removes what harnesses left behind that were killed.
func NewNamespaces() (*Namespaces, error) {
	sweep()
	// The name and the subnet are chance, so that several harnesses run beside each other.
	suffix := strconv.FormatInt(36*36+rand.Int64N(35*36*36), 36)
	n := &Namespaces{
		tag: fmt.Sprintf("%d-%s", os.Getpid(), suffix), bridge: "jb" + strconv.FormatInt(int64(os.Getpid()), 36) + suffix,
		made: map[int]bool{}, cuts: map[Link]bool{},
	}
	err := ip("link add %s type bridge", n.bridge)
	if err == nil {
		err = n.settle()
	}
	if err == nil {
		err = ip("link set %s up", n.bridge)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a network of namespaces: %w", err), n.Close())
	}
	return n, nil
}

// subnetTries bounds the search for a subnet that is nobody's, of 512.
const subnetTries = 100

// settle gives the bridge a subnet. Another harness may choose the same at the same moment: both see that afterwards, and choose again.
func (n *Namespaces) settle() error {
	for range subnetTries {
		subnet := fmt.Sprintf("198.%d.%d.", 18+rand.IntN(2), rand.IntN(256))
		if users, err := subnetUsers(subnet); err != nil || users > 0 {
			continue
		}
		if err := ip("addr add %s254/24 dev %s", subnet, n.bridge); err != nil {
			return err
		}
		if users, err := subnetUsers(subnet); err == nil && users == 1 {
			n.subnet = subnet
			return nil
		}
		if err := ip("addr del %s254/24 dev %s", subnet, n.bridge); err != nil {
			return err
		}
	}
	return fmt.Errorf("no subnet of 198.18.0.0/15 was found free in %d tries", subnetTries)
}

// subnetUsers counts the addresses of this machine in a subnet.
func subnetUsers(prefix string) (users int, err error) {
	addrs, err := net.InterfaceAddrs()
	for _, a := range addrs {
		if strings.HasPrefix(a.String(), prefix) {
			users++
		}
	}
	return users, err
}

// ip runs iproute2 with one line of arguments.
func ip(format string, args ...any) error {
	line := fmt.Sprintf(format, args...)
	out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", line, err, bytes.TrimSpace(out))
	}
	return nil
}

// Name is netns.
func (n *Namespaces) Name() string { return NamespaceName }

func (n *Namespaces) ns(node int) string   { return fmt.Sprintf("%s%s-n%d", nsPrefix, n.tag, node) }
func (n *Namespaces) veth(node int) string { return fmt.Sprintf("%s.%d", n.bridge, node) }
func (n *Namespaces) host(node int) string { return n.subnet + strconv.Itoa(node+1) }

// Add makes a namespace.
func (n *Namespaces) Add(node int, _ func() int) (Place, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	ns, host := n.ns(node), n.host(node)
	place := Place{
		Listen: Ports{host + ":4790", host + ":4791", host + ":4792", host + ":4793"},
		Gossip: host + ":4793",
		// Not "ip netns exec": that gives the process its own view of mounts, too, in which a disk stays mounted that is not any more.
		prefix: []string{"nsenter", "--net=/var/run/netns/" + ns},
	}
	if n.made[node] {
		return place, nil
	}
	n.made[node] = true
	for _, line := range []string{
		"netns add " + ns,
		"link add " + n.veth(node) + " type veth peer name eth0 netns " + ns,
		"link set " + n.veth(node) + " master " + n.bridge + " up",
		"-n " + ns + " addr add " + host + "/24 dev eth0",
		"-n " + ns + " link set lo up",
		"-n " + ns + " link set eth0 up",
		// Our rules must come before the one for local addresses, which is the first.
		"-n " + ns + " rule add pref 100 lookup local",
		"-n " + ns + " rule del pref 0",
	} {
		if err := ip("%s", line); err != nil {
			return place, fmt.Errorf("make a place for node %d: %w", node, err)
		}
	}
	// Early demultiplexing hands packets to open connections without asking the rules.
	const off = "echo 0 >/proc/sys/net/ipv4/tcp_early_demux; echo 0 >/proc/sys/net/ipv4/udp_early_demux"
	if out, err := place.Command("sh", "-c", off).CombinedOutput(); err != nil {
		return place, fmt.Errorf("make a place for node %d: %w: %s", node, err, out)
	}
	return place, nil
}

// Cut drops the sender's packets in the receiver's namespace.
func (n *Namespaces) Cut(l Link) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cuts[l] {
		return nil
	}
	n.cuts[l] = true
	return ip("-n %s rule add pref 10 from %s blackhole", n.ns(l.To), n.host(l.From))
}

// Shape is not supported: this network only cuts.
func (n *Namespaces) Shape(Link, Shape) error { return ErrUnsupported }

// Reset is not supported.
func (n *Namespaces) Reset(Link) error { return ErrUnsupported }

// Heal removes all cuts.
func (n *Namespaces) Heal() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	for l := range n.cuts {
		errs = append(errs, ip("-n %s rule del pref 10 from %s blackhole", n.ns(l.To), n.host(l.From)))
	}
	clear(n.cuts)
	return errors.Join(errs...)
}

// Close removes namespaces, which takes their cables along, and the bridge.
func (n *Namespaces) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	for node := range n.made {
		errs = append(errs, ip("netns del %s", n.ns(node)))
		// The cable goes with the namespace when that goes, which a process in it would delay.
		_ = ip("link del %s", n.veth(node))
	}
	clear(n.made)
	if _, err := net.InterfaceByName(n.bridge); err == nil {
		errs = append(errs, ip("link del %s", n.bridge))
	}
	return errors.Join(errs...)
}

// sweep removes namespaces whose harness is gone, and their bridges. It is best effort: what stays is found the next time.
func sweep() {
	out, err := exec.Command("ip", "netns", "list").Output()
	if err != nil {
		return
	}
	for line := range strings.Lines(string(out)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest, ours := strings.CutPrefix(name, nsPrefix)
		pid, err := strconv.Atoi(strings.Split(rest, "-")[0])
		if !ours || err != nil || alive(pid) {
			continue
		}
		_ = ip("netns del %s", name)
	}
	links, err := net.Interfaces()
	if err != nil {
		return
	}
	for _, l := range links {
		if pid, ok := bridgeOwner(l.Name); ok && !alive(pid) {
			_ = ip("link del %s", l.Name)
		}
	}
}

// bridgeOwner is the pid in the name of a bridge or cable of ours.
func bridgeOwner(name string) (int, bool) {
	rest, ours := strings.CutPrefix(name, "jb")
	rest, _, _ = strings.Cut(rest, ".")
	if !ours || len(rest) < 4 {
		return 0, false
	}
	pid, err := strconv.ParseInt(rest[:len(rest)-3], 36, 32)
	return int(pid), err == nil
}

func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
