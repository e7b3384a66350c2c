package workload

import (
	"context"
	"time"

	"github.com/cantus-bus/cantus/jepsen/node"
)

func streamWorkload() Workload {
	return Workload{
		Name:  "stream",
		About: "publishers with pipelining and retries; readers of all and of random subtrees, on every node, from first, middle and live",
		Env: map[string]string{
			"CANTUS_TIP_SIZE": "16MiB",
		},
		Start: func(_ context.Context, w *World) error {
			topics := w.use(tree(w.source("topics"), "stream", 150))
			w.addPublishers(4, publisher{topics: topics, size: 300})
			w.addReaders(topics, w.Cluster.Voters())
			return nil
		},
	}
}

// retries are how long publishers try, one after the other: most see every failover through, some give up early.
var retries = []time.Duration{30 * time.Second, 30 * time.Second, 5 * time.Second, 800 * time.Millisecond}

// addPublishers starts n publishers that share the world's rate.
func (w *World) addPublishers(n int, p publisher) {
	p.rate = max(1, w.Rate/n)
	for i := range n {
		p.retry = retries[i%len(retries)]
		w.addPublisher(p)
	}
}

// addReaders starts readers of every kind on each of the nodes, and some that go where they like.
func (w *World) addReaders(topics []string, nodes []*node.Node) {
	r := w.source("readers")
	for _, n := range nodes {
		w.addReader(reader{pin: n, filters: []string{"**"}, from: fromFirst})
		w.addReader(reader{pin: n, filters: subset(r, topics), from: fromMiddle, again: 3000})
		w.addReader(reader{pin: n, filters: subset(r, topics), from: fromLive, restart: 40})
	}
	w.addReader(reader{filters: []string{"**"}, from: fromLive, restart: 100})
	w.addReader(reader{filters: subset(r, topics), from: fromFirst, again: 5000})
	w.addReader(reader{filters: []string{topics[0], "nobody/publishes/**"}, from: fromFirst})
}
