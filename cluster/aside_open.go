package cluster

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cantus-bus/cantus/internal/vfs"
)

// What Options.OnDamage names.
const (
	OnDamageRejoin = "rejoin"
	OnDamageRefuse = "refuse"
)

// maxAsides is how often a node may step aside while it opens: each time moves all of its state, so what is left is history's manifest.
const maxAsides = 3

// mayStepAside tells whether a node may give its id up because of err. The others must be able to go on, and to take it in again,
// without it:
//
//	the identity says                                    may
//	a voter, and two other voters at least               yes: they are a majority without it
//	a voter, and one other or none                       no: nothing goes on without this node's files
//	not a voter, and there are others                    yes
//	nothing of others, or is itself damaged              if another node's address is configured to be joined
//
// id is zero if the identity is damaged.
func mayStepAside(o *Options, id *identity, err error) bool {
	switch {
	case o.OnDamage != OnDamageRejoin || o.LogStore == LogStoreMemory || damageOf(err) == nil:
		return false
	case id.Votes:
		return len(id.Peers) >= 2
	}
	return len(id.Peers) > 0 || joinsAnother(o)
}

// joinsAnother tells whether an address under Join is not this node's own, which may stand there too.
func joinsAnother(o *Options) bool {
	own := []string{o.GossipListen}
	if _, port, err := net.SplitHostPort(o.GossipListen); err == nil && o.Advertise != "" {
		own = append(own, net.JoinHostPort(o.Advertise, port))
	}
	return slices.ContainsFunc(o.Join, func(addr string) bool { return !slices.Contains(own, addr) })
}

// openFolderOf opens the data folder of a node. It goes on with what a node that stepped aside has not finished, and steps aside if the
// identity is damaged.
func openFolderOf(o *Options) (*folder, error) {
	f, err := lockedFolder(o.DataDir)
	if err != nil {
		return nil, err
	}
	if err := f.identify(o); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *folder) identify(o *Options) error {
	s := newStepping(*o)
	next, begun, err := s.pending()
	if err == nil && begun {
		o.Logger.Warn("going on with moving aside what was damaged", "folder", next.Aside.Folder, "reason", next.Aside.Reason)
		return f.finishAside(s, next)
	}
	if err == nil {
		f.mu.id, err = loadIdentity(f.fs, f.dir)
	}
	if err == nil || !mayStepAside(o, &identity{}, err) {
		return err
	}
	return f.stepAside(o, identity{}, err)
}

// stepAside gives up the id because of an error that mayStepAside allows. Nothing of the node runs.
func (f *folder) stepAside(o *Options, before identity, err error) error {
	s := newStepping(*o)
	next := s.next(before, damageOf(err), time.Now())
	o.Logger.Error("this node's files are damaged: it moves them aside, gives up its id, and comes back as a new node that catches up from the others",
		"error", err, "part", next.Aside.Part, "folder", next.Aside.Folder, "was", before.NodeID, "id", next.NodeID, "cluster", next.ClusterID, "history", next.Aside.History)
	if err := s.begin(next); err != nil {
		return err
	}
	return f.finishAside(s, next)
}

func (f *folder) finishAside(s *stepping, next identity) error {
	if err := s.finish(next); err != nil {
		return err
	}
	f.set(next)
	return nil
}

// noteFile is in raft/ when a running node has met damage there that a start may not: raft reads only what is behind the snapshot. It moves with
// the rest.
const noteFile = "DAMAGED"

// noteDamage keeps the damage that a running node has failed of for the next start.
func (n *Node) noteDamage(err error) {
	if damageOf(err) == nil || !n.adapter.runs.Load() || n.opts.LogStore == LogStoreMemory {
		return
	}
	if werr := vfs.Replace(n.folder.fs, n.folder.path(noteFile), []byte(reasonOf(damageOf(err))+"\n")); werr != nil {
		n.log.Warn("cannot note the damage for the next start", "error", werr)
	}
}

// notedDamage is the damage that a run before has noted; nil: none.
func (f *folder) notedDamage() error {
	b, err := os.ReadFile(f.path(noteFile))
	if err != nil {
		return nil
	}
	return damaged(partRaft, fmt.Errorf("found by a running node: %s", strings.TrimSpace(string(b))))
}

// openOrAside starts a node, unless a run before has found damage because of which it may step aside.
func openOrAside(o Options, f *folder) (*Node, error) {
	id := f.identity()
	if err := f.notedDamage(); err != nil && mayStepAside(&o, &id, err) {
		return nil, err
	}
	return openIn(o, f)
}

// Open starts a node: folder lock, identity, raft, gossip. It returns when the node runs, not when there is a leader. A node whose files
// are damaged steps aside, if Options.OnDamage and mayStepAside say so; else Open refuses, with an error of the ErrDamaged family.
func Open(o Options) (*Node, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	f, err := openFolderOf(&o)
	if err != nil {
		return nil, fmt.Errorf("cluster: open %s: %w", o.DataDir, err)
	}
	for asides := 0; ; asides++ {
		n, err := openOrAside(o, f)
		if err == nil {
			return n, nil
		}
		id := f.identity()
		if asides == maxAsides || !mayStepAside(&o, &id, err) {
			return nil, errors.Join(err, f.close())
		}
		if err := f.stepAside(&o, id, err); err != nil {
			return nil, errors.Join(fmt.Errorf("cluster: open %s: %w", o.DataDir, err), f.close())
		}
	}
}

// openIn starts a node on its folder, which stays open after an error.
func openIn(o Options, f *folder) (*Node, error) {
	stream, err := openStream(StreamOptions{Tip: o.Stream.Tip, History: o.Stream.History})
	if err != nil {
		return nil, err
	}
	n := newNode(o, f, stream)
	if err := n.start(); err != nil {
		n.cancel()
		n.metrics.close()
		return nil, errors.Join(fmt.Errorf("cluster: open node on %s: %w", o.DataDir, err), stream.Close())
	}
	return n, nil
}
