package cluster

import (
	"sync"
	"time"
)

// group is a set of goroutines that can be closed while others still try to add to it, which a sync.WaitGroup does not
// allow. The zero value is ready.
type group struct {
	mu struct {
		sync.Mutex
		running int
		idle    chan struct{} // not nil: closed, and to be closed when running reaches 0
	}
}

// Go runs f on a goroutine; false if the group is closed.
func (g *group) Go(f func()) bool {
	if !g.enter() {
		return false
	}
	go func() {
		defer g.done()
		f()
	}()
	return true
}

// enter counts the caller as one of the group until it calls done; false if the group is closed.
func (g *group) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.idle != nil {
		return false
	}
	g.mu.running++
	return true
}

func (g *group) done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.running--; g.mu.running == 0 && g.mu.idle != nil {
		close(g.mu.idle)
	}
}

// close takes no more and waits for those that run, at most for limit. Call it once.
func (g *group) close(limit time.Duration) {
	g.mu.Lock()
	idle := make(chan struct{})
	g.mu.idle = idle
	if g.mu.running == 0 {
		close(idle)
	}
	g.mu.Unlock()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-idle:
	case <-t.C:
	}
}
