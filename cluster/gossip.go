package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"

	"github.com/cantus-bus/cantus/internal/pause"
)

const (
	deadReclaim  = 30 * time.Second // after it a dead node's name may come back from another address at once
	leaveLimit   = 2 * time.Second
	joinInterval = 2 * time.Second
)

// gossip finds nodes and tells of failures. It decides nothing: the leader does, from what gossip says.
//
// memberlist calls the delegate methods while it holds its own lock, so they only take mu and never call back.
type gossip struct {
	list    *memberlist.Memberlist
	self    string
	addr    string // this node's gossip address; set by start
	log     hclog.Logger
	folder  *folder
	changed func()           // something about members changed; must not block
	foreign func(error)      // an address that this node joined belongs to another cluster
	answer  func(ask) answer // answers a peer's question; may block for a while
	inbox   chan []byte
	asks    asks

	mu struct {
		sync.Mutex
		own     meta
		dirty   bool               // own has changed and the others have not been told
		members map[string]*member // by node id, without this node
	}
}

func newGossip(o Options, f *folder, own meta) *gossip {
	g := &gossip{self: f.identity().NodeID, log: o.Logger.Named("gossip"), folder: f, inbox: make(chan []byte, inboxSize)}
	g.mu.own, g.mu.members = own, make(map[string]*member)
	g.asks.init()
	return g
}

// start binds the gossip ports.
func (g *gossip) start(o Options) error {
	if _, err := g.ownMeta().encode(); err != nil {
		return err
	}
	c, err := g.config(o)
	if err != nil {
		return err
	}
	g.list, err = memberlist.Create(c)
	if err != nil {
		return fmt.Errorf("gossip on %s: %w", o.GossipListen, err)
	}
	g.addr = g.list.LocalNode().Address()
	return nil
}

func (g *gossip) config(o Options) (*memberlist.Config, error) {
	host, port, err := splitPort(o.GossipListen)
	if err != nil {
		return nil, err
	}
	c := memberlist.DefaultLANConfig()
	c.Name, c.Label = g.self, o.ClusterName
	c.BindAddr, c.BindPort, c.AdvertisePort = host, port, port
	if o.Advertise != "" {
		ip, err := net.ResolveIPAddr("ip", o.Advertise)
		if err != nil {
			return nil, fmt.Errorf("advertise %s: %w", o.Advertise, err)
		}
		c.AdvertiseAddr = ip.String()
	}
	c.SecretKey = o.GossipKey
	c.DeadNodeReclaimTime = deadReclaim
	c.ProbeInterval, c.ProbeTimeout = o.HeartbeatTimeout, o.HeartbeatTimeout/2
	c.GossipInterval = min(c.GossipInterval, max(20*time.Millisecond, o.HeartbeatTimeout/5))
	c.PushPullInterval = 15 * time.Second
	c.Logger = g.log.StandardLogger(&hclog.StandardLoggerOptions{InferLevels: true})
	if o.network.gossip != nil {
		c.Transport, c.EnableCompression = o.network.gossip, false // which is not a network
	}
	c.Delegate, c.Events, c.Merge, c.Alive, c.Conflict = g, g, g, g, g
	return c, nil
}

// splitPort returns the IP (memberlist takes no names) and the port of a listen address.
func splitPort(addr string) (string, int, error) {
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return "", 0, fmt.Errorf("gossip on %s: %w", addr, err)
	}
	if a.IP == nil {
		a.IP = net.IPv4zero
	}
	return a.IP.String(), a.Port, nil
}

func (g *gossip) ownMeta() meta {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.own
}

// update changes what this node says of itself; spread tells the others. It does not block.
func (g *gossip) update(change func(*meta)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.mu.own
	change(&g.mu.own)
	if _, err := g.mu.own.encode(); err != nil {
		g.mu.own = before
		g.log.Error("node metadata not changed", "error", err)
	}
	g.mu.dirty = g.mu.dirty || before != g.mu.own
}

// spread tells the others of updates. Housekeeping only: memberlist does not allow two at once.
func (g *gossip) spread() {
	g.mu.Lock()
	dirty := g.mu.dirty
	g.mu.dirty = false
	g.mu.Unlock()
	if !dirty {
		return
	}
	if err := g.list.UpdateNode(leaveLimit); err != nil {
		g.log.Debug("node metadata not spread yet", "error", err)
	}
	g.changed()
}

func (g *gossip) member(id string) (member, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m, ok := g.mu.members[id]
	if !ok {
		return member{}, false
	}
	return *m, true
}

// members lists the other nodes ever seen, by id.
func (g *gossip) members() []member {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]member, 0, len(g.mu.members))
	for _, m := range g.mu.members {
		out = append(out, *m)
	}
	slices.SortFunc(out, func(a, b member) int { return strings.Compare(a.id, b.id) })
	return out
}

// keepJoined joins the configured addresses until some other node is known, and from time to time those of nodes that
// are gone: memberlist itself gives up on them.
func (g *gossip) keepJoined(ctx context.Context, join []string) {
	for {
		if targets := g.joinTargets(join); len(targets) > 0 {
			if _, err := g.list.Join(targets); err != nil {
				g.log.Debug("join", "targets", targets, "error", err)
			}
		}
		if !pause.For(ctx, joinInterval) {
			return
		}
	}
}

// joinTargets are those to join now. A node that was removed, or at whose address another lives by now, does not come back: it would be
// looked for for ever.
func (g *gossip) joinTargets(join []string) []string {
	var targets, alive []string
	removed := g.folder.identity().Removed
	for _, m := range g.members() {
		if m.alive {
			alive = append(alive, m.addr)
		} else if !m.left && !slices.Contains(removed, m.id) {
			targets = append(targets, m.addr)
		}
	}
	targets = slices.DeleteFunc(targets, func(a string) bool { return slices.Contains(alive, a) })
	if len(alive) == 0 || len(targets) > 0 {
		targets = append(targets, join...)
	}
	return slices.DeleteFunc(targets, func(a string) bool { return a == g.addr })
}

// stop ends gossip: gracefully, others learn at once that this node left; else they find out.
func (g *gossip) stop(graceful bool) error {
	if graceful {
		if err := g.list.Leave(leaveLimit); err != nil {
			g.log.Debug("leave", "error", err)
		}
	}
	return g.list.Shutdown()
}

// NotifyJoin is memberlist's.
func (g *gossip) NotifyJoin(n *memberlist.Node) { g.note(n, true) }

// NotifyUpdate is memberlist's.
func (g *gossip) NotifyUpdate(n *memberlist.Node) { g.note(n, true) }

// NotifyLeave is memberlist's.
func (g *gossip) NotifyLeave(n *memberlist.Node) { g.note(n, false) }

func (g *gossip) note(n *memberlist.Node, alive bool) {
	if n.Name == g.self {
		return
	}
	md, err := decodeMeta(n.Meta)
	if err != nil {
		g.log.Warn("a node's metadata is not understood", "node", n.Name, "error", err)
		return
	}
	g.mu.Lock()
	m := g.mu.members[n.Name]
	if m == nil {
		m = &member{id: n.Name}
		g.mu.members[n.Name] = m
	}
	if m.alive != alive || m.since.IsZero() {
		m.since = time.Now()
	}
	m.meta, m.addr, m.node, m.alive = md, n.Address(), *n, alive
	m.node.Meta = nil
	m.left = !alive && n.State == memberlist.StateLeft
	g.mu.Unlock()
	g.changed()
}

// foreignTo tells whether a node says that it is of another cluster than this one.
func (g *gossip) foreignTo(n *memberlist.Node) error {
	if n.Name == g.self {
		return nil
	}
	md, err := decodeMeta(n.Meta)
	own := g.folder.identity().ClusterID
	if err != nil || md.Cluster == "" || own == "" || md.Cluster == own {
		return nil
	}
	return fmt.Errorf("node %s at %s: %w", n.Name, n.Address(), foreignFolder(g.folder.dir, own, md.Cluster))
}

// NotifyAlive is memberlist's: a node of another cluster does not become a member.
func (g *gossip) NotifyAlive(n *memberlist.Node) error { return g.foreignTo(n) }

// NotifyMerge is memberlist's: joining another cluster is refused, by both sides.
func (g *gossip) NotifyMerge(peers []*memberlist.Node) error {
	for _, n := range peers {
		if err := g.foreignTo(n); err != nil {
			g.foreign(err)
			return err
		}
	}
	return nil
}

// NotifyConflict is memberlist's: two nodes say that they are the same.
func (g *gossip) NotifyConflict(existing, other *memberlist.Node) {
	g.log.Error("two nodes have the same id: was a data folder copied?", "id", existing.Name, "here", existing.Address(), "there", other.Address())
}

// NodeMeta is memberlist's.
func (g *gossip) NodeMeta(int) []byte {
	b, err := g.ownMeta().encode()
	if err != nil {
		return nil // update keeps it encodable
	}
	return b
}

// GetBroadcasts is memberlist's; nothing is broadcast.
func (g *gossip) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState is memberlist's: each full exchange spreads the removed ids.
func (g *gossip) LocalState(bool) []byte {
	b, err := json.Marshal(g.folder.identity().Removed)
	if err != nil {
		return nil
	}
	return b
}

// MergeRemoteState is memberlist's.
func (g *gossip) MergeRemoteState(b []byte, _ bool) {
	if !json.Valid(b) { // a stranger's, or nothing
		return
	}
	g.receive(envelope{Removed: b}.encode())
}

// NotifyMsg is memberlist's: it only queues.
func (g *gossip) NotifyMsg(b []byte) { g.receive(slices.Clone(b)) }

// alive lists the other nodes that gossip sees alive.
func (g *gossip) alive() []member {
	return slices.DeleteFunc(g.members(), func(m member) bool { return !m.alive })
}
