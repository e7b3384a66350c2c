package workload

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cantus-bus/cantus/jepsen/node"
)

// ReadAll reads from each of the nodes everything from the first message on, and a subset. What it returns is which reads could
// not be done within patience, and why.
func (w *World) ReadAll(nodes []*node.Node, patience time.Duration) (missed []string) {
	ctx, cancel := context.WithTimeout(w.read, patience)
	defer cancel()
	var (
		wg sync.WaitGroup
		mu sync.Mutex
	)
	for _, n := range nodes {
		random := w.source("final " + n.Name)
		for _, filters := range [][]string{{"**"}, subset(random, w.topics())} {
			r := reader{w: w, ctx: ctx, process: w.process(), r: random, pin: n, filters: filters, from: fromFirst, once: true}
			r.r = w.source(fmt.Sprint("final", r.process))
			wg.Go(func() {
				if err := r.run(); err != nil {
					mu.Lock()
					defer mu.Unlock()
					missed = append(missed, fmt.Sprintf("%s does not serve %v from first within %v: %v", n.Name, filters, patience, err))
				}
			})
		}
	}
	wg.Wait()
	slices.Sort(missed)
	return missed
}
