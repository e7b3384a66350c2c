package workload

import (
	"context"
	"time"

	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/jepsen/history"
)

func historyWorkload() Workload {
	return Workload{
		Name:  "history",
		About: "a small tip, tiny windows, plans and snapshots forced all the time, and readers that start over",
		Env: map[string]string{
			"CANTUS_HISTORY_WINDOW_BYTES": "256KiB", "CANTUS_HISTORY_PLAN_WINDOWS": "4",
			"CANTUS_TIP_SIZE": "8MiB", "CANTUS_TIP_CHUNK": "2MiB",
		},
		Start: func(_ context.Context, w *World) error {
			topics := w.use(tree(w.source("topics"), "past", 80))
			w.addPublishers(4, publisher{topics: topics, size: 4000})
			w.addReaders(topics, w.Cluster.Voters())
			r := w.source("past")
			for _, n := range w.Cluster.Voters() {
				w.addReader(reader{pin: n, filters: subset(r, topics), from: fromFirst, again: 2000})
			}
			w.publishers.Go(func() { w.forcePlans(3 * time.Second) })
			return nil
		},
	}
}

// forcePlans asks for split plans and snapshots from time to time. A refusal is as good as an answer.
func (w *World) forcePlans(every time.Duration) {
	r := w.source("plans")
	for pause.For(w.publish, time.Duration(r.Int64N(int64(2*every)))) {
		n := w.Cluster.Nodes[r.IntN(len(w.Cluster.Nodes))]
		if n.State() != history.NodeUp {
			continue
		}
		path := "/v1/plan"
		if r.IntN(2) == 0 {
			path = "/v1/snapshot"
		}
		ctx, cancel := context.WithTimeout(w.publish, every)
		if err := n.Post(ctx, path, struct{}{}, nil); err != nil {
			w.note("POST " + path + " to " + n.Name + ": " + err.Error())
		}
		cancel()
	}
}
