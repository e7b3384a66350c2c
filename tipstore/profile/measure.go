package profile

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// cost of one pass by all readers.
type cost struct {
	cpu, wall time.Duration
}

// measure lets readers make their pass together, again and again until that took minTime of the processors, and returns
// the cost of once.
func measure(ctx context.Context, sel selection, make newReader, readers int, minTime time.Duration) (cost, error) {
	passes, err := warm(ctx, make, readers)
	if err != nil {
		return cost{}, err
	}
	began := time.Now()
	cpuBegan, err := cpuTime()
	if err != nil {
		return cost{}, err
	}
	for n := time.Duration(1); ; n++ {
		got, err := together(ctx, passes)
		if err != nil {
			return cost{}, err
		}
		if want := sel.messages * readers; got != want {
			return cost{}, fmt.Errorf("profile: %d readers got %d messages; there are %d for them", readers, got, want)
		}
		now, err := cpuTime()
		if err != nil {
			return cost{}, err
		}
		if cpu := now - cpuBegan; cpu >= minTime {
			return cost{cpu / n, time.Since(began) / n}, nil
		}
	}
}

// warm makes the readers and lets each make a pass alone, so that the first measurement is like the others. What came
// before is collected: it is not this one's to pay.
func warm(ctx context.Context, make newReader, readers int) (passes []pass, err error) {
	runtime.GC()
	for range readers {
		p, err := make()
		if err != nil {
			return nil, err
		}
		if _, err := p(ctx); err != nil {
			return nil, err
		}
		passes = append(passes, p)
	}
	return passes, nil
}

// together runs all passes at once and adds up what they got.
func together(ctx context.Context, passes []pass) (messages int, err error) {
	if len(passes) == 1 {
		return passes[0](ctx)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, p := range passes {
		wg.Go(func() {
			n, failed := p(ctx)
			mu.Lock()
			defer mu.Unlock()
			messages += n
			if failed != nil && err == nil {
				err = failed
			}
		})
	}
	wg.Wait()
	return messages, err
}

// cpuTime is what the process has used of the processors, in it and in the kernel.
func cpuTime() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("profile: getrusage: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// median is the cost in the middle by processor time.
func median(costs []cost) cost {
	sorted := slices.SortedFunc(slices.Values(costs), func(a, b cost) int { return int(a.cpu - b.cpu) })
	return sorted[len(sorted)/2]
}
