package node

import (
	"bufio"
	"os"
	"strings"
)

const (
	tailBytes   = 4 << 10
	maxFindings = 5 // lines of one log
)

// lastLine is the last line of a log.
func lastLine(path string) string {
	b := tail(path)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}

// tail is the end of a file; empty if it cannot be read.
func tail(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	at := max(0, info.Size()-tailBytes)
	b := make([]byte, info.Size()-at)
	n, _ := f.ReadAt(b, at)
	return b[:n]
}

// Panics lists the lines of the log by which a Go process says that it broke down: no fault excuses these.
func (n *Node) Panics() []string {
	f, err := os.Open(n.LogPath())
	if err != nil {
		return nil
	}
	defer f.Close()
	var found []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() && len(found) < maxFindings {
		line := lines.Text()
		for _, sign := range []string{"panic:", "fatal error:", "unexpected fault address", "WARNING: DATA RACE"} {
			if strings.HasPrefix(line, sign) {
				found = append(found, n.Name+": "+line)
			}
		}
	}
	return found
}
