package wire

import (
	"fmt"

	"github.com/cantus-bus/cantus/internal/record"
)

// Type of a frame. Types travel: never renumber.
type Type uint8

const (
	THello          Type = 1 + iota // client: first frame of a connection
	TWelcome                        // server: answer to HELLO
	TTopology                       // server: members or leader changed
	TDefineTopics                   // client: aliases for publishing
	TOpenProducer                   // client
	TProducerOpened                 // server
	TPublish                        // client: exactly a record.Batch with aliases for topic numbers; id = request, increasing
	TAck                            // server: acks of one connection may come out of order
	TSubscribe                      // client; id = subscription chosen by the client
	TSubscribed                     // server
	TCredit                         // client
	TTopicNames                     // server: names of the ids that following DATA frames use
	TData                           // server: records; id = subscription
	TProgress                       // server: everything up to a seq was delivered
	TCaughtUp                       // server: once per subscription
	TUnsubscribe                    // client
	TEnded                          // server: a subscription ended, with code
	TError                          // both: the connection (id 0) or a request failed; id 0 closes
	TPing                           // both
	TPong                           // both
	TGoodbye                        // server: shutting down or stepping aside: finish and go elsewhere
	TQuery                          // client: single messages; id = request
	TAnswer                         // server
)

var typeNames = [...]string{"", "HELLO", "WELCOME", "TOPOLOGY", "DEFINE_TOPICS", "OPEN_PRODUCER", "PRODUCER_OPENED",
	"PUBLISH", "ACK", "SUBSCRIBE", "SUBSCRIBED", "CREDIT", "TOPIC_NAMES", "DATA", "PROGRESS", "CAUGHT_UP", "UNSUBSCRIBE",
	"ENDED", "ERROR", "PING", "PONG", "GOODBYE", "QUERY", "ANSWER"}

// String is the type's name in the specification.
func (t Type) String() string {
	if !t.known() {
		return fmt.Sprintf("TYPE(%d)", uint8(t))
	}
	return typeNames[t]
}

func (t Type) known() bool { return t != 0 && int(t) < len(typeNames) }

// Role says who opened a connection.
type Role uint8

const (
	RoleClient Role = iota
	RolePeer        // a node that forwards; its publishes are never forwarded again
)

// Hello is the first frame of a connection. Its layout is the same in all versions.
type Hello struct {
	MinVersion, MaxVersion uint16
	Role                   Role
	ClusterID              string // "" any
	Client                 string // name and version, for people
	HeartbeatMS            uint32 // silence after which the sender pings; 0: the server's choice
	Credentials            []byte // empty until there is access control
}

// NodeInfo is one member as clients need it.
type NodeInfo struct {
	ID         string
	ClientAddr string // host:port of this protocol; "" unknown
	HTTPAddr   string // host:port of the control plane; "" unknown
	Voter      bool
	Alive      bool
}

// Topology is the sender's view of the cluster.
type Topology struct {
	ClusterID string
	LeaderID  string // "" unknown
	Term      uint64
	Nodes     []NodeInfo
}

// Welcome accepts a connection.
type Welcome struct {
	Version           uint16 // spoken from here on
	NodeID            string
	HeartbeatMS       uint32
	MaxFrame          uint32 // bytes
	MaxInflight       uint32 // bytes of unacknowledged publishes per connection before the server stops reading
	FirstSeq, LastSeq uint64 // what this node holds
	Topology          Topology
}

// DefineTopics gives names to aliases FirstAlias, FirstAlias+1, ... Aliases are dense, from 0, and never change.
type DefineTopics struct {
	FirstAlias uint32
	Names      []string
}

// OpenProducer asks for an epoch.
type OpenProducer struct{ ID record.ProducerID }

// ProducerOpened answers OpenProducer.
type ProducerOpened struct {
	Code       Code
	Detail     uint64
	Epoch      uint32
	LastNumber uint64 // last number of that producer that is settled, 0 none
	LastSeq    uint64 // its seq
}

// Ack settles one PUBLISH: Code says how.
type Ack struct {
	Code     Code
	Index    uint16 // of the failed precondition
	Count    uint32 // messages
	FirstSeq uint64 // of the batch's first message
	Time     int64  // unix nanoseconds
	Detail   uint64 // see the table of codes
}

// StartKind says where a subscription begins.
type StartKind uint8

const (
	StartFirst StartKind = iota // oldest kept
	StartNow                    // after the head at opening
	StartSeq                    // first message with seq >= Value
	StartTime                   // first message with time >= Value (unix ns)
	StartAgo                    // Value = nanoseconds before the node's newest message time
)

// Subscribe opens a subscription.
type Subscribe struct {
	Filters []string
	Start   StartKind
	Value   uint64
	Prev    uint64 // last matching seq the client has: prev of the first DATA frame
	MinSeq  uint64 // the node must have applied this before it answers
	WaitMS  uint32 // how long it may take to
	Credit  uint64 // bytes of DATA the client is ready for
}

// Subscribed accepts a subscription.
type Subscribed struct {
	Next, Head, Oldest uint64 // first seq that may come; head at opening; oldest kept
}

// TopicName names an id.
type TopicName struct {
	ID   uint32
	Name string
}

// Data is a part of a subscription's messages.
type Data struct {
	Prev  uint64 // matching seq delivered before this frame's first record, 0 if none since opening (or Subscribe.Prev)
	Count uint32
	Run   []byte // view

	History bool // the records were read from disk, not from memory
}
