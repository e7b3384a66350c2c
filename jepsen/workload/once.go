package workload

import (
	"context"
	"fmt"
)

func onceWorkload() Workload {
	return Workload{
		Name:  "exactly-once",
		About: "named producers that are opened again and again over messages on their way, with retry storms; every id is counted",
		Start: func(_ context.Context, w *World) error {
			topics := w.use(tree(w.source("topics"), "once", 12))
			const publishers = 6
			for i := range publishers {
				w.addPublisher(publisher{
					topics: topics, size: 60, rate: max(1, w.Rate/publishers), retry: retries[i%len(retries)],
					name: fmt.Sprintf("once-%d", i), reopen: 2000,
				})
			}
			for _, n := range w.Cluster.Voters() {
				w.addReader(reader{pin: n, filters: []string{"**"}, from: fromFirst})
			}
			w.addReader(reader{filters: []string{"**"}, from: fromFirst, restart: 20})
			return nil
		},
	}
}
