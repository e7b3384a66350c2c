package plan

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/internal/topic"
)

const million = 1_000_000

// millionTopics makes tables of a million topics in three shapes; volumes are skewed: a few topics have most.
func millionTopics(tb testing.TB, shape string) *topic.Table {
	name := map[string]func(i int) string{
		"services":      func(i int) string { return fmt.Sprintf("team-%d/app-%d/service-%d/entity-%07d", i%50, i%1000, i/40, i) },
		"flat":          func(i int) string { return fmt.Sprintf("game/players/player-%07d", i) },
		"one partition": func(i int) string { return fmt.Sprintf("shop/orders/%d/%d/%d/%07d", i%10, i/10%37, i/370%101, i) },
	}[shape]
	t := topic.NewTable(million)
	for i := range million {
		id, _, err := t.Intern([]byte(name(i)))
		if err != nil {
			tb.Fatal(err)
		}
		rank := uint64(uint32(i)*2654435761)>>12 + 1
		t.Add(id, 1, 100+(1<<36)/(rank*rank), 0)
	}
	return t
}

// cpuTime is what this process has used so far, on all cores: on a busy machine it says more than the clock.
func cpuTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPlanMillion plans a million topics from nothing, and again with the plans in force.
func BenchmarkPlanMillion(b *testing.B) {
	for _, shape := range []string{"services", "flat", "one partition"} {
		t := millionTopics(b, shape)
		first, err := Compute(t, nil, Options{})
		if err != nil {
			b.Fatal(err)
		}
		for _, again := range []bool{false, true} {
			var previous []*Plan
			if again {
				previous = first.Plans
			}
			b.Run(fmt.Sprintf("%s/again=%v", shape, again), func(b *testing.B) {
				var r *Result
				before := cpuTime(b)
				for b.Loop() {
					if r, err = Compute(t, previous, Options{}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64((cpuTime(b)-before).Milliseconds())/float64(b.N), "cpu-ms/plan")
				b.ReportMetric(float64(r.Stores), "stores")
				b.ReportMetric(float64(r.Kept), "kept")
			})
		}
	}
}
