package compare

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/cantus-bus/cantus/internal/dataset"
	"github.com/cantus-bus/cantus/internal/topic"
)

const (
	// churnSteps is how many times a plan is followed by the next one.
	churnSteps = 7
	// A stream that is too short for days is cut into so many.
	fewestDays = churnSteps + 1
	daySeconds = 24 * 60 * 60
)

// Row is one algorithm's result.
type Row struct {
	Algorithm string `json:"algorithm"`
	Measures
	PlanMS float64 `json:"plan_ms"` // wall time to plan all partitions from nothing
	// Churn is the share of bytes whose store changes from a day's plan to the next, in the mean over the last 7 days of
	// the stream; days are shortened to an eighth of a stream that has fewer than 8.
	Churn float64 `json:"churn"`
	// ChurnEighths is the same with an eighth of the whole stream's time in place of a day.
	ChurnEighths float64 `json:"churn_eighths"`
	// FollowedAmplification is Amplification under the last plan that followed others day by day, and so may have kept
	// what a new one would do better.
	FollowedAmplification float64 `json:"followed_amplification"`
	Rules                 int     `json:"rules"`      // of all plans; 0: the algorithm needs none
	PlanBytes             int     `json:"plan_bytes"` // of all plans, encoded
}

// Run splits the topics of a stream by each of the algorithms. progress is called as often as Steps says. The time is
// spent on the caller's goroutine; ctx ends it between plans.
func Run(ctx context.Context, rows []dataset.Row, names []string, o Options, progress func()) ([]Row, error) {
	if len(rows) == 0 {
		return nil, fmt.Errorf("compare split algorithms: the stream has no messages")
	}
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("compare split algorithms: %w", err)
	}
	byTime := func(a, b dataset.Row) int { return cmp.Compare(a.Seconds, b.Seconds) }
	if !slices.IsSortedFunc(rows, byTime) {
		rows = slices.Clone(rows)
		slices.SortStableFunc(rows, byTime)
	}
	var results []Row
	for _, name := range names {
		r := Row{Algorithm: name}
		for _, part := range []func(context.Context, []dataset.Row, Options, *Row) error{measureFresh, measureDays, measureEighths} {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err := part(ctx, rows, o, &r); err != nil {
				return nil, fmt.Errorf("split by %s: %w", name, err)
			}
			progress()
		}
		results = append(results, r)
	}
	return results, nil
}

// Steps is how often Run calls progress for so many algorithms.
func Steps(algorithms int) int { return 3 * algorithms }

// growing is a topic table that a stream is counted into bit by bit.
type growing struct {
	table *topic.Table
	rows  []dataset.Row // not counted yet
}

// upTo counts the rows up to a time, that second included.
func (g *growing) upTo(seconds int64) error {
	n := sort.Search(len(g.rows), func(i int) bool { return g.rows[i].Seconds > seconds })
	for _, row := range g.rows[:n] {
		id, _, err := g.table.Intern(row.Topic)
		if err != nil {
			return fmt.Errorf("row %d: %w", row.Number, err)
		}
		g.table.Add(id, 1, uint64(row.Bytes), row.Number)
	}
	g.rows = g.rows[n:]
	return nil
}

func newGrowing(rows []dataset.Row) *growing { return &growing{topic.NewTable(0), rows} }

func last(rows []dataset.Row) int64 { return rows[len(rows)-1].Seconds }

// measureFresh plans the whole stream from nothing.
func measureFresh(_ context.Context, rows []dataset.Row, o Options, r *Row) error {
	a, err := newAlgorithm(r.Algorithm, o)
	if err != nil {
		return err
	}
	g := newGrowing(rows)
	if err := g.upTo(last(rows)); err != nil {
		return err
	}
	began := time.Now()
	if err := a.decide(g.table); err != nil {
		return err
	}
	r.PlanMS = float64(time.Since(began).Microseconds()) / 1000
	r.Measures = measure(g.table, a.group(g.table))
	if p, ok := a.(*planner); ok {
		r.Rules, r.PlanBytes = p.size()
	}
	return nil
}

func measureDays(ctx context.Context, rows []dataset.Row, o Options, r *Row) (err error) {
	step := min(daySeconds, (last(rows)-rows[0].Seconds)/fewestDays)
	r.Churn, r.FollowedAmplification, err = follow(ctx, rows, o, r.Algorithm, step)
	return err
}

func measureEighths(ctx context.Context, rows []dataset.Row, o Options, r *Row) (err error) {
	r.ChurnEighths, _, err = follow(ctx, rows, o, r.Algorithm, (last(rows)-rows[0].Seconds)/fewestDays)
	return err
}

// follow plans at the end of the stream and at so many steps before it, each time knowing the plan before, and returns
// the mean churn and the amplification at the end.
func follow(ctx context.Context, rows []dataset.Row, o Options, name string, step int64) (mean, amplification float64, err error) {
	a, err := newAlgorithm(name, o)
	if err != nil {
		return 0, 0, err
	}
	g := newGrowing(rows)
	var before *grouping
	for i := int64(churnSteps); i >= 0; i-- {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		if err := g.upTo(last(rows) - i*step); err != nil {
			return 0, 0, err
		}
		if err := a.decide(g.table); err != nil {
			return 0, 0, err
		}
		now := a.group(g.table)
		if before != nil {
			mean += churn(g.table, before, now) / churnSteps
		}
		before = now
	}
	return mean, measure(g.table, before).Amplification, nil
}
