package check

import (
	"github.com/cantus-bus/cantus/jepsen/history"
)

// All judges a history by every check. It fails only if the history cannot be read.
func All(src history.Source) (Report, error) {
	out, head := newFindings(), src.Header()
	l := newLedger(out, head)
	if err := pass(src, l.observe); err != nil {
		return Report{}, err
	}
	l.seal()
	checkStream(l)
	l.run.available(out)

	readers, points := newReaders(l), newReads(l, head)
	order := newLinear(l, points.linear)
	err := pass(src, func(line int, e history.Event) {
		readers.observe(line, e)
		points.observe(line, e)
		order.observe(line, e)
	})
	if err != nil {
		return Report{}, err
	}
	readers.finish()
	order.finish(readers)
	if err := out.show(src); err != nil {
		return Report{}, err
	}
	return l.report(head), nil
}

// pass reads the history once. Lines are those of the file: the header has number 1.
func pass(src history.Source, observe func(line int, e history.Event)) error {
	line := 1
	for e, err := range src.Events() {
		if err != nil {
			return err
		}
		line++
		observe(line, e)
	}
	return nil
}

func (l *ledger) report(h history.Header) Report {
	r := Report{Workload: h.Workload, Nemeses: h.Nemeses, Seed: h.Seed, Version: h.Version, Complete: l.complete, Counts: l.counts,
		Recovery: l.run.recovery(), Notes: l.out.notes, Malformed: l.out.malformed, Faults: l.faultNames}
	for _, p := range promises {
		r.Checks = append(r.Checks, *l.out.verdicts[p.name])
	}
	return r
}
