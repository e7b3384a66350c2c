package run

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Case is something that went wrong with another broker, in public, as a run of this one.
type Case struct {
	Name      string
	Elsewhere string // what was seen
	Right     string // what must be seen here
	Workload  string
	Nemesis   string
	Beside    int
	Each      int           // each fault so many times, within eachLimit; 0: by chance
	Hold      time.Duration // 0: as in other runs
	Stuck     time.Duration // 0: as in other runs
	Faults    int           // at least so many
	Elections int           // at least so many
}

// Cases lists the cases.
func Cases() []Case {
	return []Case{
		{
			Name: "leader-changes", Elsewhere: "delivery stood still for ever after a leader change", Right: "every reader goes on within two seconds of a hundred changes",
			Workload: "stream", Nemesis: "transfer", Beside: 2, Stuck: 2 * time.Second, Elections: 100,
		}, {
			Name: "power-cut", Elsewhere: "a power cut of all nodes took an eighth of the acknowledged messages, acked before they were synced", Right: "nothing acked is lost",
			Workload: "exactly-once", Nemesis: "power:all", Faults: 6,
		}, {
			Name: "flipped-bits", Elsewhere: "one flipped bit on a minority took a third of the acknowledged messages, and the damaged node could lead",
			Right: "damage is noticed, set aside and mended from other nodes", Workload: "history", Nemesis: "bit-flip,flip-live,flip-raft", Each: 8,
		}, {
			Name: "pauses-and-power", Elsewhere: "pauses and a power cut left replicas different for good", Right: "replicas are equal, part by part",
			Workload: "history", Nemesis: "pause-power", Faults: 5,
		}, {
			Name: "members-under-cuts", Elsewhere: "a change of members beside a cut and a kill lost acknowledged messages", Right: "nothing acked is lost",
			Workload: "membership", Nemesis: "cut-one,cut-halves,kill", Beside: 2, Faults: 10,
		}, {
			Name: "damaged-snapshots", Elsewhere: "with a damaged snapshot a node deleted the stream", Right: "the snapshot before and the log, or another node's files, bring everything back",
			Workload: "history", Nemesis: "snapshot-damage,at-restore", Faults: 6,
		}, {
			Name: "full-disk", Elsewhere: "after a write error a node stayed sick, with a message that misled", Right: "it steps aside, says why, and recovers when there is room",
			Workload: "stream", Nemesis: "full:leader", Hold: 5 * time.Second, Faults: 4,
		}, {
			Name: "torn-files", Elsewhere: "with a torn or missing tail the stream did not start", Right: "the node starts, or says what is missing and gets it from the others",
			Workload: "history", Nemesis: "torn", Faults: 4,
		}, {
			Name: "retries", Elsewhere: "kill -9 of the leader made a duplicate of an idempotent publish", Right: "every id once",
			Workload: "exactly-once", Nemesis: "kill:leader", Faults: 8,
		}, {
			Name: "steps", Elsewhere: "a crash between two writes left what the next start could not read", Right: "any start goes on from any step",
			Workload: "history", Nemesis: "steps", Each: 2,
		},
	}
}

// FindCases returns the cases of these names, or all if there are none.
func FindCases(names []string) ([]Case, error) {
	return find("case", Cases(), names, func(c Case) string { return c.Name })
}

// eachLimit is how long a run may take in which each fault comes a number of times.
const eachLimit = 10 * time.Minute

// caseRuns bounds the runs of a case that come by too few faults.
const caseRuns = 6

// Tally is what the runs of a case came to.
type Tally struct {
	OK                      bool
	Runs, Faults, Elections int
	Acked, Delivered        uint64
	Time                    time.Duration
}

func (t *Tally) add(res *Result) {
	t.Runs++
	for _, n := range res.Injected {
		t.Faults += n
	}
	t.Elections += res.Elections
	t.Acked, t.Delivered = t.Acked+res.Counts.Acked, t.Delivered+res.Counts.Delivered
}

// String is the tally in a row of a table.
func (t Tally) String() string {
	verdict := "ok"
	if !t.OK {
		verdict = "BROKEN"
	}
	return fmt.Sprintf("| %d | %d | %d | %d | %d | %v | %s |", t.Runs, t.Faults, t.Elections, t.Acked, t.Delivered, t.Time.Round(time.Second), verdict)
}

// Do runs a case, with one seed after the other until it has seen enough or is broken. each gets every result.
func (c Case) Do(ctx context.Context, base Options, each func(*Result) error) (t Tally, err error) {
	began := time.Now()
	defer func() { t.Time = time.Since(began) }()
	o := base
	o.Workload, o.Nemesis, o.Beside = c.Workload, c.Nemesis, c.Beside
	o.Hold, o.Stuck = c.Hold, c.Stuck
	if c.Each > 0 {
		o.Each, o.Time = c.Each, eachLimit
	}
	for i := range caseRuns {
		if base.Dir != "" {
			o.Dir = filepath.Join(base.Dir, fmt.Sprintf("%s-%d", c.Name, o.Seed))
		}
		res, err := Run(ctx, o)
		if err != nil {
			return t, err
		}
		t.add(res)
		enough := t.Faults >= c.Faults && t.Elections >= c.Elections
		if !enough && i == caseRuns-1 {
			res.found("the case saw too little: %d faults and %d elections in %d runs", t.Faults, t.Elections, caseRuns)
		}
		if err := each(res); err != nil || !res.OK() {
			return t, err
		}
		if enough {
			t.OK = true
			break
		}
		o.Seed++
	}
	return t, nil
}

// Possible is an error that says what this machine or user lacks for the case.
func (c Case) Possible(base Options) error {
	o := base
	o.Workload, o.Nemesis = c.Workload, c.Nemesis
	_, err := o.plan()
	return err
}

// String is the case in a line.
func (c Case) String() string {
	return fmt.Sprintf("%s under %s: %s", c.Workload, strings.ReplaceAll(c.Nemesis, ",", ", "), c.Right)
}
