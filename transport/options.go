package transport

import (
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/wire"
)

// Defaults of Options. The fixed limits of the protocol (frame, batch, payload, filters of a subscription) are in the
// packages that own the formats.
const (
	DefaultMaxConnections   = 10_000
	DefaultMaxInflight      = 8 << 20
	DefaultMaxSubscriptions = 1024
	DefaultMaxAliases       = 4 << 20
	DefaultMaxOpenProducers = 64
	DefaultMaxQueries       = 8
	DefaultMaxReplies       = 256 << 10
	DefaultQuantum          = 128 << 10
	DefaultWriteBatch       = 256 << 10
	DefaultCopyBelow        = 4 << 10
	DefaultHandshakeTimeout = 10 * time.Second
	DefaultHeartbeat        = 5 * time.Second
	DefaultWriteTimeout     = 15 * time.Second
	DefaultProgress         = time.Second
	DefaultMaxSeqWait       = 30 * time.Second
	DefaultLinger           = time.Second

	// MinHeartbeat and MaxHeartbeat bound what a client may ask for in its hello.
	MinHeartbeat = 50 * time.Millisecond
	MaxHeartbeat = time.Minute

	// missedHeartbeats is how many pings without an answer make a peer dead.
	missedHeartbeats = 3
	// maxRefusals is how many refused connections may be told why at once; further ones are closed without a word.
	maxRefusals = 64
	// publishOverhead is added to a batch's bytes when in-flight bytes are counted: the ack that will wait for it.
	publishOverhead = 128
)

// Options of a server. Broker is needed; all else has a default, which a zero means.
type Options struct {
	Broker   cluster.Broker
	Logger   hclog.Logger
	Registry prometheus.Registerer // nil: metrics are counted and shown nowhere

	// MaxConnections open at once. One more is told CodeTooManyConnections and closed.
	MaxConnections int
	// MaxInflight is the bytes of publishes of one connection whose acks are not yet written. At the limit the server
	// stops reading from the connection. One batch is always let in.
	MaxInflight int
	// MaxSubscriptions of one connection. One more is refused with CodeTooManySubscriptions.
	MaxSubscriptions int
	// MaxAliases of one connection; more end it with CodeTooLarge.
	MaxAliases int
	// MaxOpenProducers is how many OPEN_PRODUCER requests of one connection may wait for the log at once; the next one
	// is answered with fsm.Unavailable.
	MaxOpenProducers int
	// MaxQueries is how many QUERY requests of one connection may be under way; the next one is refused with CodeTooManyQueries.
	MaxQueries int
	// MaxReplies is the bytes of replies (all frames but DATA) that may wait to be written before the server stops
	// reading from the connection.
	MaxReplies int

	// Quantum is the bytes of DATA that one subscription may send before the next one's turn.
	Quantum int
	// WriteBatch is the bytes gathered for one write to the connection.
	WriteBatch int
	// CopyBelow: a contiguous stretch of the ring shorter than this many bytes is copied into the write buffer; a longer
	// one goes to the socket from where it stands.
	CopyBelow int

	// HandshakeTimeout is how long a new connection may take to say hello.
	HandshakeTimeout time.Duration
	// Heartbeat is the silence after which the server pings a client that asked for no interval of its own. A client that
	// lets three pings pass is dead.
	Heartbeat time.Duration
	// WriteTimeout closes a connection that takes not one byte for so long.
	WriteTimeout time.Duration
	// Progress is how long a subscription stays without a match before its position is sent.
	Progress time.Duration
	// MaxSeqWait bounds how long a subscription or a query may wait for its MinSeq.
	MaxSeqWait time.Duration
	// Linger is how long a connection that the server ends is kept half open so that the last error reaches the client.
	Linger time.Duration
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	for _, d := range []struct {
		value *int
		def   int
	}{
		{&o.MaxConnections, DefaultMaxConnections},
		{&o.MaxInflight, DefaultMaxInflight},
		{&o.MaxSubscriptions, DefaultMaxSubscriptions},
		{&o.MaxAliases, DefaultMaxAliases},
		{&o.MaxOpenProducers, DefaultMaxOpenProducers},
		{&o.MaxQueries, DefaultMaxQueries},
		{&o.MaxReplies, DefaultMaxReplies},
		{&o.Quantum, DefaultQuantum},
		{&o.WriteBatch, DefaultWriteBatch},
		{&o.CopyBelow, DefaultCopyBelow},
	} {
		if *d.value <= 0 {
			*d.value = d.def
		}
	}
	o.Quantum = min(o.Quantum, wire.MaxFrame/2) // a frame holds a quantum or one record: under MaxFrame either way
	o.setDefaultTimes()
}

func (o *Options) setDefaultTimes() {
	for _, d := range []struct {
		value *time.Duration
		def   time.Duration
	}{
		{&o.HandshakeTimeout, DefaultHandshakeTimeout},
		{&o.Heartbeat, DefaultHeartbeat},
		{&o.WriteTimeout, DefaultWriteTimeout},
		{&o.Progress, DefaultProgress},
		{&o.MaxSeqWait, DefaultMaxSeqWait},
		{&o.Linger, DefaultLinger},
	} {
		if *d.value <= 0 {
			*d.value = d.def
		}
	}
}
