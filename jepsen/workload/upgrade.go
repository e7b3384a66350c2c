package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/jepsen/history"
)

const (
	upgradeAfter = 5 * time.Second // of work with the earlier build, which leave history and snapshots of its making
	upgradePause = 2 * time.Second // between two nodes: builds work together for so long at least
)

func upgradeWorkload() Workload {
	return Workload{
		Name:   "upgrade",
		About:  "a stream, while one node after the other is stopped and goes on with a newer build in the folder of the earlier",
		Before: true,
		Env:    historyWorkload().Env,
		Start: func(_ context.Context, w *World) error {
			topics := w.use(tree(w.source("topics"), "upgrade", 50))
			w.addPublishers(4, publisher{topics: topics, size: 2000})
			w.addReaders(topics, w.Cluster.Voters())
			w.publishers.Go(func() { w.forcePlans(2 * time.Second) })
			w.publishers.Go(w.upgrade)
			return nil
		},
	}
}

// upgrade gives each node the newer build, and then restarts one after the other. It upgrades all, however short the run is.
func (w *World) upgrade() {
	pause.For(w.publish, upgradeAfter)
	for _, n := range w.Cluster.Nodes {
		for !n.TryClaim() {
			if !pause.For(w.read, askAgain) {
				return
			}
		}
		w.restart(n, func() { n.SetBinary(w.Newer) })
		n.Release()
		w.note(fmt.Sprintf("%s was upgraded and is %s", n.Name, n.State()))
		pause.For(w.publish, upgradePause)
	}
	w.roll()
}

// Upgraded says which nodes do not run the newer build, or are not up with it.
func (w *World) Upgraded() (missing []string) {
	for _, n := range w.Cluster.Nodes {
		if n.Binary() != w.Newer || n.State() != history.NodeUp {
			missing = append(missing, n.Name)
		}
	}
	return missing
}
