package history

import "time"

// Kind names what an event is. It is the first field of a line.
type Kind string

// The kinds of events, short because most lines of a file are deliveries.
const (
	KindHeader     Kind = "header"
	KindPublish    Kind = "pub"
	KindDelivery   Kind = "dlv"
	KindProgress   Kind = "pos"
	KindCaughtUp   Kind = "caught"
	KindReader     Kind = "reader"
	KindResumed    Kind = "resumed"
	KindReaderEnd  Kind = "reader_end"
	KindRead       Kind = "read"
	KindFault      Kind = "fault"
	KindFaultEnd   Kind = "fault_end"
	KindQuorum     Kind = "quorum"
	KindNode       Kind = "node"
	KindMembership Kind = "member"
	KindVerify     Kind = "verify"
	KindProbe      Kind = "probe"
	KindPhase      Kind = "phase"
	KindNote       Kind = "note"
	KindEnd        Kind = "end"
)

// Event is one line of a history. The pointer types of this package implement it; an event is not changed after it was
// written or read.
//
// Times in events are nanoseconds of the harness's monotonic clock since the run began (Writer.Now), the same for all
// goroutines. Header.Wall turns them into dates.
type Event interface{ Kind() Kind }

// Header is the first line of a file.
type Header struct {
	Format   int       `json:"format"`         // FormatVersion
	Seed     uint64    `json:"seed"`           // replays the harness's choices
	Workload string    `json:"workload"`       // as `jepsen list` names it
	Nemeses  []string  `json:"nemeses"`        // likewise
	Nodes    []string  `json:"nodes"`          // names of the nodes at the start; events name nodes the same way
	Version  string    `json:"version"`        // of the tested binary
	Started  time.Time `json:"started"`        // wall clock at time 0
	Bounds   Bounds    `json:"bounds"`         // what the run promises about times
	Bank     *Bank     `json:"bank,omitempty"` // only of workloads that move money
	// Linearizable are filters of the topics whose publishes and linearizable reads porcupine checks. Keep them few and
	// the operations on them below some ten thousand: the search is exponential in what is concurrent.
	Linearizable []string          `json:"linearizable,omitempty"`
	Options      map[string]string `json:"options,omitempty"` // whatever else makes the run what it is
}

// Bounds are the times that checkers hold the cluster to. A zero bound is replaced by the default of package check.
type Bounds struct {
	Available time.Duration `json:"available_ns,omitempty"` // longest time without an ack while a majority is connected
	Stuck     time.Duration `json:"stuck_ns,omitempty"`     // longest silence of a reader that has something to read, in calm
}

// Bank says which topics are accounts and what they hold together. A message's Value is the balance after it.
type Bank struct {
	Accounts []string `json:"accounts"`
	Total    int64    `json:"total"`
}

// FormatVersion is the version of files that this package writes.
const FormatVersion = 1

// Wall is the wall clock's time of an event's time.
func (h *Header) Wall(at time.Duration) time.Time { return h.Started.Add(at) }

// Kind returns KindHeader.
func (*Header) Kind() Kind { return KindHeader }

// Phase says that the run as a whole begins something new.
type Phase struct {
	At   time.Duration `json:"at"`
	Name PhaseName     `json:"name"`
}

// PhaseName is a part of a run.
type PhaseName string

// The parts of a run, in their order.
const (
	PhaseSetup   PhaseName = "setup"   // the cluster comes up
	PhaseFaults  PhaseName = "faults"  // workload and nemeses at work
	PhaseHealed  PhaseName = "healed"  // all faults have ended; the workload goes on
	PhaseDrained PhaseName = "drained" // publishing has ended; readers read what is left
)

// Kind returns KindPhase.
func (*Phase) Kind() Kind { return KindPhase }

// Note is a remark for people. Checkers pass over it.
type Note struct {
	At   time.Duration `json:"at"`
	Text string        `json:"text"`
}

// Kind returns KindNote.
func (*Note) Kind() Kind { return KindNote }

// End is the last line of a complete file. Writer.Close writes it. Without it checkers do not conclude anything from what
// is not in the file.
type End struct {
	At     time.Duration `json:"at"`
	Events uint64        `json:"events"` // before this one, the header not counted
}

// Kind returns KindEnd.
func (*End) Kind() Kind { return KindEnd }
