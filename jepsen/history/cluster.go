package history

import "time"

// Fault says that a nemesis has done something. At is when the fault was in force: after the injecting call returned.
type Fault struct {
	At      time.Duration `json:"at"`
	ID      int           `json:"id"`               // never used twice in a run
	Name    string        `json:"name"`             // such as "kill", "cut"; recovery times are given for each name
	Aim     string        `json:"aim,omitempty"`    // such as "leader", "minority"; part of the name in tables
	Targets []string      `json:"on,omitempty"`     // nodes
	Detail  string        `json:"detail,omitempty"` // such as the links cut
	// Momentary: the fault is a blow and not a state; no FaultEnd follows.
	Momentary bool `json:"momentary,omitempty"`
}

// Kind returns KindFault.
func (*Fault) Kind() Kind { return KindFault }

// FaultEnd says that a fault was taken back.
type FaultEnd struct {
	At time.Duration `json:"at"`
	ID int           `json:"id"`
}

// Kind returns KindFaultEnd.
func (*FaultEnd) Kind() Kind { return KindFaultEnd }

// Quorum says, with all that is now in force taken together, whether the cluster owes its clients service: a majority of
// the voters is up, not paused, with disks and clocks that work, and each of them reaches each other and the clients reach
// one of them. It holds until the next Quorum. Until the first one nothing is owed. One that takes the service away is written
// before the fault that does so, one that brings it back after the healing.
type Quorum struct {
	At time.Duration `json:"at"`
	Up bool          `json:"up"`
}

// Kind returns KindQuorum.
func (*Quorum) Kind() Kind { return KindQuorum }

// NodeState is what a node is up to.
type NodeState string

// The states.
const (
	NodeStarting NodeState = "starting" // the process was started
	NodeUp       NodeState = "up"       // it answers
	NodeDown     NodeState = "down"     // no process: killed, stopped, or ended by itself
	NodePaused   NodeState = "paused"
	NodeWiped    NodeState = "wiped" // its folder was removed
)

// NodeChanged says that a node went into a state.
type NodeChanged struct {
	At     time.Duration `json:"at"`
	Node   string        `json:"n"`
	State  NodeState     `json:"state"`
	Detail string        `json:"detail,omitempty"` // such as the signal or exit status
	// ByItself: the harness did not do it. A node may leave after a disk error, and is a finding otherwise.
	ByItself bool `json:"itself,omitempty"`
}

// Kind returns KindNode.
func (*NodeChanged) Kind() Kind { return KindNode }

// MembershipChanged is one change of the cluster's members, asked for by the harness.
type MembershipChanged struct {
	Invoke  time.Duration `json:"at"`
	Return  time.Duration `json:"ret"`
	Action  string        `json:"action"` // "add", "remove", "promote", "replace"
	Node    string        `json:"n"`
	Outcome Outcome       `json:"o"`
	Code    string        `json:"code,omitempty"`
}

// Kind returns KindMembership.
func (*MembershipChanged) Kind() Kind { return KindMembership }

// Verify is a comparison of replicas.
type Verify struct {
	At    time.Duration `json:"at"`
	Nodes []NodeDigests `json:"nodes"`
	// Settled: all faults have ended and the nodes had time to catch up, so that all of them must have answered and be
	// comparable.
	Settled bool `json:"settled,omitempty"`
}

// NodeDigests is one node's answer.
type NodeDigests struct {
	Node    string            `json:"n"`
	Seq     uint64            `json:"s,omitempty"`       // what the digests cover
	Digests map[string]string `json:"digests,omitempty"` // of each part, such as "machine", "window 17"
	Error   string            `json:"err,omitempty"`     // it did not answer, or found damage
}

// Kind returns KindVerify.
func (*Verify) Kind() Kind { return KindVerify }
