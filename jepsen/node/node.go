package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/jepsen/disk"
	"github.com/cantus-bus/cantus/jepsen/history"
	"github.com/cantus-bus/cantus/jepsen/network"
)

// Recorder takes the events of a run.
type Recorder interface {
	Now() time.Duration
	Write(history.Event)
}

// restartWait is how long a process that ended by itself stays away.
const restartWait = time.Second

// Node is one member of the cluster. Its methods may be called by several goroutines, but what changes the process is for one
// at a time.
type Node struct {
	Name  string
	Index int
	Place network.Place
	Disk  disk.Disk

	dir     string // holds node.yaml, node.log and faults
	env     []string
	record  Recorder
	changed func() // called without locks after each change of state

	mu      sync.Mutex
	binary  string            // of the next process. Guarded by mu
	cmd     *exec.Cmd         // nil: no process. Guarded by mu
	gone    chan struct{}     // closed when cmd was waited for. Guarded by mu
	state   history.NodeState // Guarded by mu
	meant   bool              // the harness ends the process, or wants none. Guarded by mu
	id      string            // as of the last time it was ready. Guarded by mu
	ready   chan struct{}     // closed when this process said that it is ready. Guarded by mu
	exits   []string          // what a process said that ended by itself. Guarded by mu
	sick    bool              // its disk does not work. Guarded by mu
	outside bool              // it has lost its disk or stepped aside, and does not vote under its new id yet. Guarded by mu
	damaged bool              // its files were damaged since the disk was emptied. Guarded by mu
	asides  int               // how often it came back under another id and had its disk. Guarded by mu
	strays  []string          // changes of its id that nothing explains. Guarded by mu
	claimed atomic.Bool       // see TryClaim
	cared   sync.WaitGroup    // of the goroutines that watch and restart
	closing chan struct{}     // closed by close
}

// LogPath is the file with all that the node wrote to standard error.
func (n *Node) LogPath() string { return filepath.Join(n.dir, "node.log") }

// FaultsPath is the file that tells a test build which faults to make.
func (n *Node) FaultsPath() string { return filepath.Join(n.dir, "faults") }

func (n *Node) configPath() string { return filepath.Join(n.dir, "node.yaml") }

// State is what the node is up to.
func (n *Node) State() history.NodeState {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state
}

// Binary is the broker that the next process runs.
func (n *Node) Binary() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.binary
}

// SetBinary changes it.
func (n *Node) SetBinary(path string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.binary = path
}

// PID of the process, 0 if there is none.
func (n *Node) PID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return 0
	}
	return n.cmd.Process.Pid
}

// Exits lists what was last said by processes that ended by themselves.
func (n *Node) Exits() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.exits)
}

// SetSick notes that the node's disk does not work, or does again: a cluster does not owe service through it.
func (n *Node) SetSick(sick bool) {
	n.mu.Lock()
	n.sick = sick
	n.mu.Unlock()
	n.changed()
}

// well tells whether the node is up and its disk works.
func (n *Node) well() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state == history.NodeUp && !n.sick
}

// serves tells whether the node can be one of a majority.
func (n *Node) serves() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state == history.NodeUp && !n.sick && !n.outside
}

func (n *Node) setOutside(outside bool) {
	n.mu.Lock()
	n.outside = outside
	n.mu.Unlock()
	n.changed()
}

// set changes the state and records it.
func (n *Node) set(s history.NodeState, detail string, itself bool) {
	n.mu.Lock()
	n.state = s
	n.mu.Unlock()
	n.record.Write(&history.NodeChanged{At: n.record.Now(), Node: n.Name, State: s, Detail: detail, ByItself: itself})
	n.changed()
}

// Start runs the process. It does not wait until the node is ready.
func (n *Node) Start() error {
	log, err := os.OpenFile(n.LogPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: %w", n.Name, err)
	}
	cmd := n.Place.Command(n.Binary(), "serve", "--config", n.configPath())
	cmd.Env, cmd.Stderr, cmd.SysProcAttr = n.env, log, dieWithUs()
	out, err := cmd.StdoutPipe()
	if err == nil {
		fmt.Fprintf(log, "=== start at %v\n", n.record.Now())
		err = cmd.Start()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", n.Name, err), log.Close())
	}
	n.mu.Lock()
	n.cmd, n.gone, n.ready, n.meant = cmd, make(chan struct{}), make(chan struct{}), false
	gone, ready := n.gone, n.ready
	n.mu.Unlock()
	n.set(history.NodeStarting, "", false)
	n.cared.Go(func() { n.watch(cmd, out, log, ready, gone) })
	return nil
}

// watch reads what the process says, waits for it, and starts another if it ended by itself.
func (n *Node) watch(cmd *exec.Cmd, out io.Reader, log *os.File, ready, gone chan struct{}) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), "ready: node ")
		if !ok {
			continue
		}
		id, _, _ := strings.Cut(rest, ",")
		n.learn(id, cmd.Process.Pid)
		n.set(history.NodeUp, "id "+id, false)
		close(ready)
	}
	err := cmd.Wait()
	_ = log.Close() // the process has written, not we
	n.mu.Lock()
	meant := n.meant
	n.cmd = nil
	if !meant {
		n.exits = append(n.exits, fmt.Sprintf("%v: %s", err, lastLine(n.LogPath())))
	}
	n.mu.Unlock()
	close(gone)
	n.set(history.NodeDown, fmt.Sprint(cmd.ProcessState), !meant)
	if !meant {
		n.again()
	}
}

// again starts the process after a while, unless the harness wants none by then.
func (n *Node) again() {
	select {
	case <-time.After(restartWait):
	case <-n.closing:
		return
	}
	n.mu.Lock()
	wanted := !n.meant && n.cmd == nil
	n.mu.Unlock()
	if !wanted {
		return
	}
	if err := n.Start(); err != nil {
		n.record.Write(&history.Note{At: n.record.Now(), Text: err.Error()})
	}
}

// WaitReady waits until the node says that it is ready; restarts by itself are waited through.
func (n *Node) WaitReady(ctx context.Context) error {
	for {
		if n.State() == history.NodeUp {
			return nil
		}
		if !pause.For(ctx, 5*time.Millisecond) {
			return fmt.Errorf("%s is not ready: %w: it last said: %s", n.Name, ctx.Err(), lastLine(n.LogPath()))
		}
	}
}

// end sends a signal that ends the process, and waits for it.
func (n *Node) end(s syscall.Signal) {
	n.mu.Lock()
	n.meant = true
	cmd, gone := n.cmd, n.gone
	n.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(s) // it may have ended a moment ago
	<-gone
}

// Kill ends the process at once; the operating system keeps what it wrote.
func (n *Node) Kill() { n.end(syscall.SIGKILL) }

// Stop asks the process to end in good order.
func (n *Node) Stop() { n.end(syscall.SIGTERM) }

// PowerCut loses the process and everything that it did not sync, and makes the disk usable again.
func (n *Node) PowerCut() error {
	n.signal(syscall.SIGSTOP)
	err := n.Disk.PowerCut()
	n.Kill()
	return errors.Join(err, n.Disk.Restore())
}

func (n *Node) signal(s syscall.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		_ = n.cmd.Process.Signal(s) // it may have ended a moment ago
	}
}

// Pause stops the process where it is.
func (n *Node) Pause() {
	n.signal(syscall.SIGSTOP)
	n.set(history.NodePaused, "", false)
}

// Resume lets it go on.
func (n *Node) Resume() {
	n.signal(syscall.SIGCONT)
	n.mu.Lock()
	paused := n.state == history.NodePaused
	n.mu.Unlock()
	if paused {
		n.set(history.NodeUp, "", false)
	}
}

// Wipe empties the disk of a node without process: it comes back as another node.
func (n *Node) Wipe() error {
	if err := n.Disk.Wipe(); err != nil {
		return fmt.Errorf("wipe %s: %w", n.Name, err)
	}
	n.mu.Lock()
	n.id, n.outside, n.damaged = "", true, false
	n.mu.Unlock()
	n.changed()
	n.set(history.NodeWiped, "", false)
	return nil
}

// close ends the process and the goroutines.
func (n *Node) close() {
	n.mu.Lock()
	n.meant = true
	n.mu.Unlock()
	close(n.closing)
	n.signal(syscall.SIGCONT)
	n.Kill()
	n.cared.Wait()
	n.Kill() // one that was just being started
	n.cared.Wait()
}
