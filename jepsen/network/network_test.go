package network

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/internal/leak"
	"github.com/cantus-bus/cantus/internal/loopback"
)

// helper makes the test's own binary the process that runs at a place: "serve ADDR" echoes, "ask ADDR" wants its line back.
const helper = "JEPSEN_NETWORK_HELPER"

func TestMain(m *testing.M) {
	what, addr, _ := strings.Cut(os.Getenv(helper), " ")
	switch what {
	case "serve":
		l, err := net.Listen("tcp", addr)
		if err != nil {
			os.Exit(2)
		}
		fmt.Println("ready")
		echo(l)
	case "ask":
		if ask(addr) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	leak.VerifyTestMain(m)
}

func echo(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}()
	}
}

func ask(addr string) error {
	c, err := net.DialTimeout("tcp", addr, 500*time.Millisecond)
	if err != nil {
		return err
	}
	defer c.Close()
	return exchange(c, "hello", 500*time.Millisecond)
}

// patiently tries again and again: a busy machine may take longer than one try waits.
func patiently(try func() error) (err error) {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		if err = try(); err == nil {
			return nil
		}
	}
	return err
}

// exchange sends a text and wants it back.
func exchange(c net.Conn, text string, limit time.Duration) error {
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, text); err != nil {
		return err
	}
	b := make([]byte, len(text))
	_, err := io.ReadFull(c, b)
	return err
}

func at(p Place, what string) *exec.Cmd {
	cmd := p.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helper+"="+what)
	return cmd
}

// TestNamespaces: nodes reach each other and the harness them; a cut is silent, directed, and ends.
func TestNamespaces(t *testing.T) {
	if !CanNamespace() {
		t.Skip("needs root, ip and nsenter")
	}
	n, err := NewNamespaces()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if out, _ := exec.Command("ip", "netns", "list").Output(); strings.Contains(string(out), n.tag) {
			t.Errorf("namespaces are left: %s", out)
		}
	}()
	var places []Place
	for i := range 3 {
		p, err := n.Add(i, nil)
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, p)
		serve := at(p, "serve "+p.Listen.Raft)
		out, err := serve.StdoutPipe()
		if err == nil {
			err = serve.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = serve.Process.Kill(); _ = serve.Wait() }()
		if _, err := io.ReadFull(out, make([]byte, len("ready"))); err != nil {
			t.Fatalf("node %d does not serve: %v", i, err)
		}
		if err := patiently(func() error { return ask(p.Listen.Raft) }); err != nil {
			t.Fatalf("the harness does not reach node %d: %v", i, err)
		}
	}
	try := func(from, to int) error { return at(places[from], "ask "+places[to].Listen.Raft).Run() }
	reach := func(from, to int) bool { return patiently(func() error { return try(from, to) }) == nil }
	if !reach(0, 1) || !reach(1, 2) {
		t.Fatal("nodes do not reach each other")
	}
	if err := n.Cut(Link{0, 1}); err != nil {
		t.Fatal(err)
	}
	if try(0, 1) == nil || try(1, 0) == nil { // an answer needs both ways
		t.Error("nodes reach each other through a cut")
	}
	if !reach(0, 2) || !reach(2, 1) || patiently(func() error { return ask(places[1].Listen.Raft) }) != nil {
		t.Error("the cut is wider than one link")
	}
	if err := errors.Join(n.Heal(), n.Heal()); err != nil || !reach(0, 1) {
		t.Errorf("not healed: %v", err)
	}
	if err := n.Shape(Link{0, 1}, Shape{Delay: 1}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("shape: %v", err)
	}
}

// proxyOfTwo is a network where this process is node 0 and node 1 a listener that echoes, and a connection between them.
func proxyOfTwo(t *testing.T) (p *Proxy, c net.Conn) {
	p, err := NewProxy(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err = p.Add(0, os.Getpid); err != nil {
		t.Fatal(err)
	}
	place, err := p.Add(1, func() int { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", place.Listen.Raft)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go echo(l)
	_, port, _ := net.SplitHostPort(place.Listen.Raft)
	c, err = net.Dial("tcp", net.JoinHostPort(place.Advertise, port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := exchange(c, "hello", 30*time.Second); err != nil {
		t.Fatal(err)
	}
	return p, c
}

// TestProxyCuts: each direction by itself; what was held back comes when the cut ends.
func TestProxyCuts(t *testing.T) {
	for _, l := range []Link{{0, 1}, {1, 0}} {
		p, c := proxyOfTwo(t)
		if err := p.Cut(l); err != nil {
			t.Fatal(err)
		}
		if err := exchange(c, "again", 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("cut %v: %v", l, err)
		}
		if err := errors.Join(p.Heal(), c.SetDeadline(time.Now().Add(30*time.Second))); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, len("again"))
		if _, err := io.ReadFull(c, b); err != nil || string(b) != "again" {
			t.Errorf("after the cut of %v: %q, %v", l, b, err)
		}
	}
}

// TestProxyShapes: a slow link delays, a reset breaks, a narrow link takes as long as its bytes.
func TestProxyShapes(t *testing.T) {
	p, c := proxyOfTwo(t)
	if err := p.Shape(Link{1, 0}, Shape{Delay: 50 * time.Millisecond, Jitter: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := exchange(c, "slow", 30*time.Second); err != nil || time.Since(began) < 50*time.Millisecond {
		t.Errorf("slow link: %v after %v", err, time.Since(began))
	}
	if err := p.Shape(Link{1, 0}, Shape{BytesPerSecond: 100 << 10}); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	if err := exchange(c, strings.Repeat("x", 10<<10), 30*time.Second); err != nil || time.Since(began) < 80*time.Millisecond {
		t.Errorf("narrow link: %v after %v", err, time.Since(began))
	}
	if err := p.Reset(Link{0, 1}); err != nil {
		t.Fatal(err)
	}
	if err := exchange(c, "gone", 30*time.Second); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reset link: %v", err)
	}
}

// TestProxyDatagrams: gossip passes, and not through a cut.
func TestProxyDatagrams(t *testing.T) {
	p, _ := proxyOfTwo(t)
	p.mu.Lock()
	from, to := p.nodes[0].place, p.nodes[1].place
	p.mu.Unlock()
	receiver, err := net.ListenPacket("udp", to.Listen.Gossip)
	if err != nil {
		t.Fatal(err)
	}
	defer receiver.Close()
	sender, err := net.ListenPacket("udp", from.Listen.Gossip)
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	target, err := net.ResolveUDPAddr("udp", to.Gossip)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	send := func(from net.PacketConn, text string) {
		if _, err := from.WriteTo([]byte(text), target); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want string) {
		t.Helper()
		b := make([]byte, 100)
		_ = receiver.SetReadDeadline(time.Now().Add(30 * time.Second))
		if n, _, err := receiver.ReadFrom(b); err != nil || string(b[:n]) != want {
			t.Errorf("%q, %v, want %q", b[:n], err, want)
		}
	}
	if err := p.Cut(Link{0, 1}); err != nil {
		t.Fatal(err)
	}
	send(sender, "lost")
	send(stranger, "behind") // a relay takes one after the other
	expect("behind")
	if err := p.Heal(); err != nil {
		t.Fatal(err)
	}
	send(sender, "kept")
	expect("kept")
}

// TestProxyPorts: every port of a node is relayed, and cut, as others dial it.
func TestProxyPorts(t *testing.T) {
	p, _ := proxyOfTwo(t)
	p.mu.Lock()
	place := p.nodes[1].place
	p.mu.Unlock()
	for _, addr := range []string{place.Listen.Client, place.Listen.HTTP, place.Listen.Gossip} {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go echo(l)
		_, port, _ := net.SplitHostPort(addr)
		c, err := net.Dial("tcp", net.JoinHostPort(place.Advertise, port))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := exchange(c, "hello", 30*time.Second); err != nil {
			t.Fatal(err)
		}
		if err := p.Cut(Link{0, 1}); err != nil {
			t.Fatal(err)
		}
		if err := exchange(c, "again", 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s, cut: %v", addr, err)
		}
		if err := p.Heal(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestInode: connections that were dialed from one port to several are told apart. The port is one that the system gives to nobody by
// itself: next to a connection of somebody else's it could not be bound.
func TestInode(t *testing.T) {
	from, err := loopback.Addrs(1)
	if err != nil {
		t.Fatal(err)
	}
	local, err := net.ResolveTCPAddr("tcp", from[0])
	if err != nil {
		t.Fatal(err)
	}
	d := net.Dialer{LocalAddr: local, Control: func(_, _ string, raw syscall.RawConn) (err error) {
		return errors.Join(raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1) }), err)
	}}
	seen := map[string]bool{}
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		c, err := d.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		inode := ""
		for end := time.Now().Add(30 * time.Second); inode == "" && time.Now().Before(end); {
			inode = inodeOf(local, l.Addr().(*net.TCPAddr))
		}
		if inode == "" || seen[inode] || !hasSocket(os.Getpid(), inode) {
			t.Errorf("inode %q after %v", inode, seen)
		}
		seen[inode] = true
	}
}

// TestNamespacesBeside: networks made at the same time have names and addresses of their own, and all are gone in the end.
func TestNamespacesBeside(t *testing.T) {
	if !CanNamespace() {
		t.Skip("needs root, ip and nsenter")
	}
	const beside = 4
	made := make([]*Namespaces, beside)
	var wg sync.WaitGroup
	for i := range made {
		wg.Go(func() {
			n, err := NewNamespaces()
			if err == nil {
				_, err = n.Add(0, nil)
			}
			if err != nil {
				t.Error(err)
			}
			made[i] = n
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, n := range made {
		if n == nil {
			continue
		}
		for _, name := range []string{n.tag, n.subnet, n.bridge} {
			if seen[name] {
				t.Errorf("%s is two networks'", name)
			}
			seen[name] = true
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if _, err := net.InterfaceByName(n.bridge); err == nil {
			t.Errorf("the bridge %s is left", n.bridge)
		}
	}
}
