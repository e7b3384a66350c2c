package client

import (
	"crypto/rand"
	"crypto/sha256"
	"time"

	"github.com/cantus-bus/cantus/internal/record"
)

// Defaults and bounds of a producer.
const (
	DefaultInflightBytes    = 4 << 20
	DefaultInflightMessages = 1 << 20
	DefaultBatchBytes       = 64 << 10
	DefaultLinger           = 2 * time.Millisecond

	// MaxInflightBatches bounds the batches on their way; the cluster remembers the outcome of as many per producer.
	MaxInflightBatches = 64

	minBatchBytes = 1 << 10
	maxBatchBytes = 256 << 10
)

// ProducerID names a producer in the cluster.
type ProducerID = record.ProducerID

// NamedProducer derives an id from a name, for a producer that must exist once in the world and goes on after a
// restart: whoever opens the id last fences all earlier ones.
func NamedProducer(name string) ProducerID {
	sum := sha256.Sum256([]byte(name))
	return ProducerID(sum[:len(ProducerID{})])
}

// ProducerOptions of a Producer. The zero value is good.
type ProducerOptions struct {
	// ID is the producer's identity, see NamedProducer. Default: a random one.
	ID ProducerID
	// MaxInflightBytes and MaxInflightMessages bound what was handed to Publish and is not settled; beyond them
	// Publish waits. One message always fits.
	MaxInflightBytes    int
	MaxInflightMessages int
	// BatchBytes is when a batch is full, 1 KiB to 256 KiB.
	BatchBytes int
	// Linger is how long a message may wait for others while earlier batches are on their way; when none is, it is
	// sent at once. Negative: until a batch is full or all earlier ones are acknowledged.
	Linger time.Duration
	// RetryTimeout overrides Options.RetryTimeout for this producer.
	RetryTimeout time.Duration
	// OnAck is called once for each batch, in the order of publishing, by one goroutine of the producer. Until it
	// returns the batch counts as in flight, so it must not wait for the producer.
	OnAck func(BatchAck)
}

func (o ProducerOptions) withDefaults(c *Client) ProducerOptions {
	if o.ID == (ProducerID{}) {
		_, _ = rand.Read(o.ID[:]) // never fails
	}
	if o.MaxInflightBytes <= 0 {
		o.MaxInflightBytes = DefaultInflightBytes
	}
	if o.MaxInflightMessages <= 0 {
		o.MaxInflightMessages = DefaultInflightMessages
	}
	if o.BatchBytes <= 0 {
		o.BatchBytes = DefaultBatchBytes
	}
	o.BatchBytes = min(max(o.BatchBytes, minBatchBytes), maxBatchBytes)
	if o.Linger == 0 {
		o.Linger = DefaultLinger
	}
	if o.RetryTimeout == 0 {
		o.RetryTimeout = c.o.RetryTimeout
	}
	return o
}
