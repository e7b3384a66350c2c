package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/control"
	"github.com/cantus-bus/cantus/internal/record"
)

// MaxReaders is how many readers may recover at once.
const MaxReaders = MaxClients

// RecoverOptions of Recover.
type RecoverOptions struct {
	Connect client.Options  // its servers are replaced by the node's address
	Control *control.Client // of any node
	Node    string          // that is read from, by id or client address; "": the one that Control reaches
	Filters []string
	Readers int               // at once, each with a connection of its own; 1 to MaxReaders
	Message func(count int64) // told of messages as they come, by many goroutines; may be nil
}

// RecoverResult says what initial recovery took. What was read from disk are the node's own counts, before and after: other readers
// of that node count too.
type RecoverResult struct {
	Node    string `json:"node"`
	Readers int    `json:"readers"`
	// Messages and Bytes, of payloads, of all readers together.
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	// RecordBytes is what the messages from history take as records, which is how they lie on disk before compression.
	RecordBytes  uint64 `json:"record_bytes"`
	DiskBytes    uint64 `json:"disk_bytes"`    // read from files, as they lie there: compressed, with indexes
	DecodedBytes uint64 `json:"decoded_bytes"` // of records, after decompression
	// Amplification is DecodedBytes over RecordBytes; 0 if nothing came from history.
	Amplification float64 `json:"amplification"`
	ElapsedMS     float64 `json:"elapsed_ms"` // until the last reader had caught up
	TTFBMS        float64 `json:"ttfb_ms"`    // until the last reader had its first message
	FromHistory   uint64  `json:"from_history"`
	FromTip       uint64  `json:"from_tip"`
	PerSecond     float64 `json:"per_s"`    // messages
	MBPerS        float64 `json:"mb_per_s"` // payloads, in 10^6 bytes
}

// Recover reads filters from the first message to caught-up, by several readers at once, from one node.
func Recover(ctx context.Context, o RecoverOptions) (RecoverResult, error) {
	if o.Readers < 1 || o.Readers > MaxReaders {
		return RecoverResult{}, fmt.Errorf("load: %d readers: 1 to %d", o.Readers, MaxReaders)
	}
	node, err := findNode(ctx, o)
	if err != nil {
		return RecoverResult{}, err
	}
	own, err := control.New([]string{node.HTTPAddr})
	if err != nil {
		return RecoverResult{}, err
	}
	defer own.Close()
	o.Connect.Servers, o.Node = []string{node.ClientAddr}, node.ID
	r := RecoverResult{Node: node.ID, Readers: o.Readers}
	before, err := readCounts(ctx, own)
	if err != nil {
		return r, err
	}
	err = r.read(ctx, o)
	after, countErr := readCounts(ctx, own)
	if err = errors.Join(err, countErr); err != nil {
		return r, err
	}
	r.DiskBytes, r.DecodedBytes = after.ReadDiskBytes-before.ReadDiskBytes, after.ReadRecordBytes-before.ReadRecordBytes
	if r.RecordBytes > 0 {
		r.Amplification = float64(r.DecodedBytes) / float64(r.RecordBytes)
	}
	return r, nil
}

// findNode asks the cluster for the node that is wanted.
func findNode(ctx context.Context, o RecoverOptions) (cluster.NodeStatus, error) {
	var s cluster.Status
	if err := o.Control.Get(ctx, "/v1/status", &s); err != nil {
		return cluster.NodeStatus{}, err
	}
	wanted := o.Node
	if wanted == "" {
		wanted = s.NodeID
	}
	for _, n := range s.Nodes {
		if n.ID != wanted && n.ClientAddr != wanted {
			continue
		}
		if n.HTTPAddr == "" || n.ClientAddr == "" {
			return n, fmt.Errorf("read from node %s: its addresses are not known: is it up?", n.ID)
		}
		return n, nil
	}
	return cluster.NodeStatus{}, fmt.Errorf("read from node %q: %w: see cantus node list", wanted, ErrNoSuchNode)
}

// readCounts asks a node what its readers have read from disk so far.
func readCounts(ctx context.Context, c *control.Client) (cluster.HistoryStatus, error) {
	var s cluster.Status
	if err := c.Get(ctx, "/v1/status", &s); err != nil {
		return cluster.HistoryStatus{}, err
	}
	if s.History == nil {
		return cluster.HistoryStatus{}, nil // it keeps none, so nothing is read from it
	}
	return *s.History, nil
}

// read runs the readers and adds up what they got.
func (r *RecoverResult) read(ctx context.Context, o RecoverOptions) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	readers := make([]recovery, o.Readers)
	began := time.Now()
	for i := range readers {
		wg.Go(func() {
			if err := readers[i].run(ctx, o); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(began)
	for i := range readers {
		x := &readers[i]
		r.Messages += x.Messages
		r.Bytes += x.Bytes
		r.RecordBytes += x.records
		r.FromHistory += x.FromHistory
		r.FromTip += x.FromTip
		r.TTFBMS = max(r.TTFBMS, x.TTFBMS)
	}
	r.ElapsedMS = float64(elapsed) / float64(time.Millisecond)
	r.PerSecond = float64(r.Messages) / elapsed.Seconds()
	r.MBPerS = float64(r.Bytes) / 1e6 / elapsed.Seconds()
	return context.Cause(ctx)
}

// recovery is one reader.
type recovery struct {
	ReadResult
	records uint64 // bytes of the records that came from history
}

func (x *recovery) run(ctx context.Context, o RecoverOptions) (err error) {
	var told uint64
	x.ReadResult, err = Read(ctx, ReadOptions{
		Connect: o.Connect, CaughtUp: true,
		Subscribe: client.SubscribeOptions{Filters: o.Filters, From: client.First(), Node: o.Node},
		Message: func(m *client.Message) error {
			if m.History {
				x.records += uint64(record.PaddedSize(m.Headers(), len(m.Payload)))
			}
			if told++; told%1024 == 0 && o.Message != nil {
				o.Message(1024)
			}
			return nil
		},
	})
	return err
}
