package loopback

import (
	"net"
	"os"
	"testing"
)

func TestAddrs(t *testing.T) {
	a, err := Addrs(40)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Addrs(40)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, addr := range append(a, b...) {
		if seen[addr] {
			t.Errorf("%s was given twice", addr)
		}
		seen[addr] = true
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Error(err)
			continue
		}
		defer l.Close()
	}
}

// TestAddrsPassesBusyOnes: ports that somebody has, for TCP or for UDP, are not given.
func TestAddrsPassesBusyOnes(t *testing.T) {
	next, err := Addrs(3)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", next[0])
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	u, err := net.ListenPacket("udp", next[1])
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	drawn.Store(drawn.Load() - 3)
	again, err := Addrs(1)
	if err != nil {
		t.Fatal(err)
	}
	if again[0] == next[0] || again[0] == next[1] {
		t.Errorf("%s is taken", again[0])
	}
}

func TestBounds(t *testing.T) {
	for _, c := range []struct {
		own         string
		err         error
		first, last int
	}{
		{"32768\t60999\n", nil, 10000, 32767},
		{"1024\t60999\n", nil, 61000, 65535},
		{"10100\t60999", nil, 61000, 65535},
		{"1024\t65535\n", nil, 10000, 65535},
		{"15000 65535", nil, 10000, 14999},
		{"nonsense", nil, 10000, usualFirst - 1},
		{"a b", nil, 10000, usualFirst - 1},
		{"", os.ErrNotExist, 10000, usualFirst - 1},
	} {
		if first, last := bounds([]byte(c.own), c.err); first != c.first || last != c.last {
			t.Errorf("%q: %d to %d, want %d to %d", c.own, first, last, c.first, c.last)
		}
	}
}
