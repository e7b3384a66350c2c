package cluster

import (
	"errors"
	"fmt"
	oldrand "math/rand"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cantus-bus/cantus/internal/faults"
	"github.com/cantus-bus/cantus/internal/vfs"
	trace "github.com/cantus-bus/cantus/jepsen/history"
	"github.com/cantus-bus/cantus/tipstore"
)

// simRestart is how long the supervisor of a process that has ended by itself waits.
const simRestart = 300 * time.Millisecond

// simNode is a machine: its disk stays, its process comes and goes.
type simNode struct {
	c       *simCluster
	name    string
	ip      string
	dir     string // identity
	founder bool   // starts the cluster with the other founders
	disk    *simDisk
	fs      *vfs.Mem      // history and snapshots; replaced by a crash
	fate    *oldrand.Rand // of what a crash leaves of fs
	host    *simHost
	skew    atomic.Int64 // of its clock
	full    atomic.Bool  // its disk: nothing is left for history
	paused  atomic.Bool

	mu       sync.Mutex
	proc     *simProcess // nil: down
	starting bool
	out      bool // no member: it is not to be started
}

// simProcess is one life of a node.
type simProcess struct {
	node    *Node
	dead    chan struct{}  // closed at the crash
	readers sync.WaitGroup // of the node's stream
}

// start starts the process, again and again while its disk lets no node start, unless the node is out.
func (n *simNode) start() {
	if !n.change(func() bool { n.starting = !n.out && !n.starting && n.proc == nil; return n.starting }) {
		return
	}
	defer n.change(func() bool { n.starting = false; return true })
	for {
		n.host = n.c.net.boot(n.ip)
		sick := n.sick()
		node, err := Open(n.options())
		switch {
		case err == nil:
			n.begin(node)
			return
		case !sick && !n.sick():
			n.host.fall()
			n.c.wrong("%s does not start: %v", n.name, err)
			return
		}
		n.host.fall()
		time.Sleep(simRestart)
		if n.isOut() {
			return
		}
	}
}

func (n *simNode) begin(node *Node) {
	p := &simProcess{node: node, dead: make(chan struct{})}
	n.change(func() bool { n.proc = p; return true })
	n.c.record(&trace.NodeChanged{At: n.c.now(), Node: n.name, State: trace.NodeUp})
	if node.restores() {
		n.c.count(simSeenRestore)
	}
	n.c.watching.Go(func() { n.supervise(p) })
}

// change does something to the node's state.
func (n *simNode) change(do func() bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return do()
}

func (n *simNode) isOut() bool { return n.change(func() bool { return n.out }) }

// leave takes the node out of use: when it returns nothing runs, and nothing will.
func (n *simNode) leave(crash bool) {
	n.change(func() bool { n.out = true; return true })
	for n.change(func() bool { return n.starting }) {
		time.Sleep(10 * time.Millisecond)
	}
	n.stop(crash)
}

// supervise starts a process again that has ended by itself.
func (n *simNode) supervise(p *simProcess) {
	select {
	case <-p.dead:
		return
	case <-p.node.Failed():
	}
	err := p.node.Err()
	n.c.record(&trace.Note{At: n.c.now(), Text: n.name + ": " + err.Error()})
	if errors.Is(err, ErrReopen) {
		n.c.count(simSeenCatchUp)
	} else {
		n.c.count(simSeenFailed)
	}
	if !n.stop(true) {
		return
	}
	if !errors.Is(err, ErrReopen) {
		time.Sleep(simRestart)
	}
	n.start()
	n.c.noteQuorum()
}

// options are a node's. Bolt's files are made and not used, since a node with a log in memory overlooks more.
func (n *simNode) options() Options {
	store := n.disk.open()
	n.fs.SetHook(n.history)
	o := Options{
		DataDir: n.dir, Name: n.name, Join: n.c.others(n),
		RaftListen: n.ip + ":4792", GossipListen: fmt.Sprintf("%s:%d", n.ip, simGossipPort),
		Stream:        StreamOptions{Tip: tipstore.Options{SizeBytes: 4 << 20, ChunkBytes: 1 << 20}},
		FreeBytes:     func(string) (int64, error) { return n.free(), nil },
		Stabilization: time.Second, PublishWait: 500 * time.Millisecond, CommitTimeout: n.c.commitTimeout, StallLimit: simStall,
		OnDamage: OnDamageRefuse, // a state that was lost must show
		wrapStores: func(unused stores) stores {
			return stores{logs: store, stable: store, close: unused.close}
		},
		network: &network{listen: n.host.listen, dial: n.host.dial, gossip: n.host.gossip},
		clock:   func() time.Time { return faults.Now().Add(time.Duration(n.skew.Load())) },
	}
	if n.founder {
		o.BootstrapExpect = simFounders
	}
	if n.c.history {
		o.Stream.Tip = tipstore.Options{SizeBytes: 8 << 10, ChunkBytes: 4 << 10}
		o.Stream.History = &HistoryOptions{FS: n.fs}
		o.History = HistoryPolicy{WindowCount: 16, PlanWindows: 3, StoresPerPartition: 3, MinStoreBytes: 1}
		o.SnapshotBytes, o.LogKeepBytes = 3<<10, 3<<10
	}
	return o
}

func (n *simNode) free() int64 {
	if n.full.Load() {
		return 0
	}
	return 1 << 40
}

// history is the hook of the file system for history and snapshots: on a full disk writes end early, and nothing new is made.
func (n *simNode) history(op vfs.Op, name string) error {
	if op == vfs.OpRename && strings.HasSuffix(name, manifestSuffix+tempSuffix) {
		n.c.count(simSeenSnapshot)
	}
	if !n.full.Load() || op == vfs.OpRead || op == vfs.OpOpen || op == vfs.OpRemove {
		return nil
	}
	n.c.count(simSeenFull)
	if op == vfs.OpWrite {
		return &vfs.ShortWrite{Bytes: 10, Err: syscall.ENOSPC}
	}
	return syscall.ENOSPC
}

// sick tells whether the node cannot be counted on, though its process may run.
func (n *simNode) sick() bool { return n.full.Load() || n.paused.Load() || n.disk.fails() != nil }

// process is the running process, nil if there is none.
func (n *simNode) process() *simProcess {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.proc
}

// hold keeps the process's stream open for its user; nil if there is none.
func (n *simNode) hold() *simProcess {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc != nil {
		n.proc.readers.Add(1)
	}
	return n.proc
}

// stop ends the process, by a power cut or in peace, and returns when nothing of it runs any more. False: there was none.
func (n *simNode) stop(crash bool) bool {
	n.mu.Lock()
	p := n.proc
	n.proc = nil
	n.mu.Unlock()
	n.c.noteQuorum()
	if p == nil {
		return false
	}
	n.c.record(&trace.NodeChanged{At: n.c.now(), Node: n.name, State: trace.NodeDown})
	n.look(p)
	if crash {
		n.host.fall()
		lost, kept := n.disk.crash() // first: the log is never cut behind a snapshot that is not there
		n.fs = n.fs.Crash(n.fate)
		n.c.countIf(simSeenLost, lost > 0)
		n.c.countIf(simSeenKept, kept > 0)
		n.resume()
	}
	close(p.dead)
	p.readers.Wait()
	end := p.node.Close
	if crash {
		end = p.node.Crash
	}
	if err := end(); err != nil && !crash {
		n.c.wrong("%s: close: %v", n.name, err)
	}
	n.host.fall()
	return true
}

// look counts what a process that ends has come to.
func (n *simNode) look(p *simProcess) {
	if h := p.node.Stream().HistoryStatus(); h != nil {
		n.c.countIf(simSeenWindow, h.Windows > 0)
		n.c.countIf(simSeenPlan, h.Generations > 0 && h.PendingGenerations == 0)
		n.c.countIf(simSeenHistoryRead, h.ReadMessages > 0)
	}
}

// pause stops everything that others could notice of a machine: its packets wait, and its writes.
func (n *simNode) pause() {
	n.paused.Store(true)
	n.disk.pause()
	n.c.net.setPaused(n.ip, true)
}

func (n *simNode) resume() {
	n.paused.Store(false)
	n.disk.resume()
	n.c.net.setPaused(n.ip, false)
}

// wipe empties the disk of a machine that is down: what starts on it next is another node.
func (n *simNode) wipe() {
	n.founder = false
	n.disk.wipe()
	n.fs = vfs.NewMem()
	if err := os.RemoveAll(n.dir); err != nil {
		n.c.wrong("%s: %v", n.name, err)
	}
	n.c.record(&trace.NodeChanged{At: n.c.now(), Node: n.name, State: trace.NodeWiped})
}
