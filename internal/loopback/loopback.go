// Package loopback finds addresses of this machine for servers that must know each other's before they start, or that come back on the
// address they had.
//
// A port found by listening on port 0 and closing again does not do for that: the system gives the same ports to outgoing connections and to
// other listeners, of any process, before the server takes it. The ports given here lie outside the range that the system gives away by
// itself. It does not keep them: two programs that draw from here at once could draw the same, which is checked for and rare.
package loopback

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

const (
	lowest = 10000 // ports below are those of well-known services
	// rangeFile holds the first and the last port that the system gives away by itself.
	rangeFile = "/proc/sys/net/ipv4/ip_local_port_range"
	// usualFirst is where that range begins if the system does not say.
	usualFirst = 32768
	// enough ports for random ones to be free.
	enough    = 1000
	triesEach = 50 // ports looked at for each that is wanted
)

// drawn counts the ports looked at by this process, so that it never draws one twice before it has gone round.
var drawn atomic.Uint32

// begin is where this process begins to look.
var begin = rand.Uint32()

// Addrs are n different addresses on 127.0.0.1 whose ports are free for TCP and UDP. The error says what stood in the way of the last tried.
func Addrs(n int) ([]string, error) {
	first, last := bounds(os.ReadFile(rangeFile))
	var addrs []string
	var busy error
	for tries := 0; len(addrs) < n; tries++ {
		if tries > triesEach*n {
			return nil, fmt.Errorf("find %d free ports on loopback from %d to %d: only %d found: %w", n, first, last, len(addrs), busy)
		}
		port := first + int((begin+drawn.Add(1))%uint32(last-first+1))
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if err := free(addr); err != nil {
			busy = err
			continue
		}
		addrs = append(addrs, addr)
	}
	return addrs, nil
}

// free tells whether nobody has an address now.
func free(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	u, err := net.ListenPacket("udp", addr)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return errors.Join(u.Close(), l.Close())
}

// bounds are the ports to draw from, given the content of rangeFile: those below the system's own range, or above it, or all.
func bounds(own []byte, err error) (first, last int) {
	low, high := usualFirst, 65535
	if fields := strings.Fields(string(own)); err == nil && len(fields) == 2 {
		a, errA := strconv.Atoi(fields[0])
		b, errB := strconv.Atoi(fields[1])
		if errA == nil && errB == nil {
			low, high = a, b
		}
	}
	switch {
	case low-lowest >= enough:
		return lowest, low - 1
	case 65535-high >= enough:
		return max(high+1, lowest), 65535
	default:
		return lowest, 65535
	}
}
