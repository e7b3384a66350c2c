package demo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/cantus-bus/cantus/internal/config"
	"github.com/cantus-bus/cantus/internal/loopback"
)

// readyWait bounds how long a node may take to be ready, replay of its log included.
const readyWait = 60 * time.Second

// raftTimeout is below the default, as the nodes share a machine and no network is between them. A follower may need up to
// three times as long to see that the leader is dead.
const raftTimeout = config.Duration(800 * time.Millisecond)

// node is one process of the demo's cluster.
type node struct {
	name   string
	dir    string // holds node.yaml, node.log and the data folder
	config config.Config
	id     string // known once it was ready

	cmd  *exec.Cmd
	log  *os.File
	line chan string   // the line that says ready; closed when the process is gone
	gone chan struct{} // closed when the process was waited for
}

// environment is ours without what would change a node's configuration.
func environment() []string {
	var kept []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, config.EnvPrefix) {
			kept = append(kept, entry)
		}
	}
	return kept
}

// writeConfig puts the node's configuration where start finds it.
func (n *node) writeConfig() error {
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := config.Encode(&b, &n.config); err != nil {
		return err
	}
	return os.WriteFile(n.configPath(), b.Bytes(), 0o644)
}

func (n *node) configPath() string { return filepath.Join(n.dir, "node.yaml") }
func (n *node) logPath() string    { return filepath.Join(n.dir, "node.log") }

// start runs the node's process. Its standard error goes to node.log, behind that of earlier runs.
func (n *node) start(binary string) (err error) {
	if n.log, err = os.OpenFile(n.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644); err != nil {
		return fmt.Errorf("start node %s: %w", n.name, err)
	}
	n.cmd = exec.Command(binary, "serve", "--config", n.configPath())
	n.cmd.Env = environment()
	n.cmd.Stderr = n.log
	out, err := n.cmd.StdoutPipe()
	if err == nil {
		err = n.cmd.Start()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("start node %s: %w", n.name, err), n.log.Close())
	}
	n.line, n.gone = make(chan string, 1), make(chan struct{})
	go n.watch(out)
	return nil
}

// watch passes the ready line on and waits for the process. It ends with the process.
func (n *node) watch(out io.Reader) {
	defer close(n.gone)
	defer close(n.line)
	lines := bufio.NewScanner(out)
	if lines.Scan() {
		n.line <- lines.Text()
	}
	for lines.Scan() { // a node says nothing more; but never let it block on a full pipe
	}
	// How it ended is told by the log, and killing it is part of the demonstration.
	_ = n.cmd.Wait()
	_ = n.log.Close()
}

// waitReady waits for the ready line and takes the node's id from it.
func (n *node) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	select {
	case line, ok := <-n.line:
		if !ok {
			return fmt.Errorf("node %s ended before it was ready: %s", n.name, n.logTail())
		}
		rest, _ := strings.CutPrefix(line, "ready: node ")
		n.id, _, _ = strings.Cut(rest, ",")
		return nil
	case <-ctx.Done():
		return fmt.Errorf("node %s was not ready in time: %w: %s", n.name, ctx.Err(), n.logTail())
	}
}

// kill ends the process at once, as a power cut would, and waits for it.
func (n *node) kill() {
	if n.cmd == nil || n.gone == nil {
		return
	}
	// An error means that it is gone already.
	_ = n.cmd.Process.Kill()
	<-n.gone
}

// pid of the process.
func (n *node) pid() int { return n.cmd.Process.Pid }

// logTail is the end of the log, for messages.
func (n *node) logTail() string {
	const tail = 2000
	b, err := os.ReadFile(n.logPath())
	if err != nil {
		return err.Error()
	}
	return "its log ends with:\n" + string(b[max(0, len(b)-tail):])
}

// nodes is the demo's cluster.
type nodes struct {
	binary string
	list   []*node
}

// newNodes lays out n nodes in dir, on free ports of loopback.
func newNodes(binary, dir string, n int) (*nodes, error) {
	ports, err := loopback.Addrs(4 * n)
	if err != nil {
		return nil, err
	}
	all := &nodes{binary: binary}
	var join []string
	for i := range n {
		join = append(join, ports[4*i+3])
	}
	for i := range n {
		c := config.Default()
		c.Node.Name = string(rune('a' + i))
		nodeDir := filepath.Join(dir, c.Node.Name)
		c.Node.Data = filepath.Join(nodeDir, "data")
		c.Cluster.Name = fmt.Sprintf("demo-%d", os.Getpid())
		c.Cluster.BootstrapExpect = config.Count(n)
		c.Cluster.Join = join
		c.Listen = config.Listen{Client: ports[4*i], HTTP: ports[4*i+1], Raft: ports[4*i+2], Gossip: ports[4*i+3]}
		c.Tip.Size, c.Tip.Chunk = tipSize, tipChunk
		c.History.WindowBytes, c.History.PlanWindows = windowBytes, 0 // planned when the story comes to it
		c.History.RewriteRate = 0
		c.Raft.HeartbeatTimeout, c.Raft.ElectionTimeout, c.Raft.LeaseTimeout = raftTimeout, raftTimeout, raftTimeout
		all.list = append(all.list, &node{name: c.Node.Name, dir: nodeDir, config: c})
	}
	return all, nil
}

// start runs all nodes and waits until each is ready.
func (ns *nodes) start(ctx context.Context) error {
	for _, n := range ns.list {
		if err := n.writeConfig(); err != nil {
			return err
		}
		if err := n.start(ns.binary); err != nil {
			return err
		}
	}
	for _, n := range ns.list {
		if err := n.waitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// kill ends all processes.
func (ns *nodes) kill() {
	var wg sync.WaitGroup
	for _, n := range ns.list {
		wg.Go(n.kill)
	}
	wg.Wait()
}

// clientAddrs are the nodes' addresses for data, httpAddrs for control.
func (ns *nodes) clientAddrs() (list []string) {
	for _, n := range ns.list {
		list = append(list, n.config.Listen.Client)
	}
	return list
}

func (ns *nodes) httpAddrs() (list []string) {
	for _, n := range ns.list {
		list = append(list, n.config.Listen.HTTP)
	}
	return list
}

// logTails is the end of every node's log, for messages.
func (ns *nodes) logTails() string {
	var b strings.Builder
	for _, n := range ns.list {
		fmt.Fprintf(&b, "\nnode %s: %s", n.name, n.logTail())
	}
	return b.String()
}

// byID finds a node by the id it said when it was ready.
func (ns *nodes) byID(id string) *node {
	for _, n := range ns.list {
		if n.id == id {
			return n
		}
	}
	return nil
}
