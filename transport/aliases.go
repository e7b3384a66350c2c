package transport

import (
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// aliasState says what a connection's alias stands for.
type aliasState uint8

const (
	aliasNew   aliasState = iota // a valid name that the topic table did not have when last asked
	aliasKnown                   // id is the topic's
	aliasBad                     // the name breaks a rule
)

type alias struct {
	// Invariant: set once state is aliasKnown, and then for ever: ids of applied topics do not change.
	id    topic.ID
	tried uint32 // round of the last look-up while state is aliasNew
	state aliasState
}

// aliases is the table of one connection: alias n is the n-th name it defined. The reading goroutine's.
type aliases struct {
	table *topic.Table
	// names is append-only: submissions that are under way keep views of it.
	names   []string
	entries []alias // Invariant: as long as names
	round   uint32  // counts batches: a new name is looked up once per batch
}

// define appends a name. err is the rule it breaks; the alias exists nevertheless, as a bad one.
func (a *aliases) define(name string) error {
	err := topic.Validate(name)
	entry := alias{}
	if err != nil {
		entry.state, name = aliasBad, ""
	}
	a.names = append(a.names, name)
	a.entries = append(a.entries, entry)
	return err
}

// rewrite replaces the aliases in a valid batch by what the broker wants: the topic's id, or record.NewTopic and the index
// into names. ok is false if an alias has no use: culprit is the first such one, and undefined tells the two reasons
// apart. The batch is then half rewritten and must be dropped.
func (a *aliases) rewrite(b record.Batch, preconditions int) (culprit uint32, undefined, ok bool) {
	a.round++
	for i := range preconditions {
		n := b.Precondition(i).Topic
		number, ok := a.resolve(n)
		if !ok {
			return n, int(n) >= len(a.entries), false
		}
		b.SetPreconditionTopic(i, number)
	}
	for run := b.Records(); len(run) > 0; run = run[record.Scan(run):] {
		n := record.Record(run).Topic()
		number, ok := a.resolve(n)
		if !ok {
			return n, int(n) >= len(a.entries), false
		}
		record.SetTopic(run, number)
	}
	return 0, false, true
}

func (a *aliases) resolve(n uint32) (number uint32, ok bool) {
	if int64(n) >= int64(len(a.entries)) {
		return 0, false
	}
	e := &a.entries[n]
	switch e.state {
	case aliasKnown:
		return uint32(e.id), true
	case aliasBad:
		return 0, false
	default:
		return a.resolveNew(n, e), true
	}
}

// resolveNew asks the table once per batch whether the topic exists by now. A node that is only a step in longer topics
// is no topic yet: the log must name it.
func (a *aliases) resolveNew(n uint32, e *alias) uint32 {
	if e.tried != a.round {
		e.tried = a.round
		if id, found := a.table.Lookup(a.names[n]); found && a.table.IsTopic(id) {
			e.id, e.state = id, aliasKnown
			return uint32(id)
		}
	}
	return record.NewTopic | n
}
