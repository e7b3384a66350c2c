package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/internal/dataset"
	"github.com/cantus-bus/cantus/internal/pause"
)

const (
	// chunkRows is how many rows travel to a producer at once, and chunksWaiting how many chunks may wait for it.
	chunkRows     = 256
	chunksWaiting = 4
)

// MaxProducers is how many producers may share a replay.
const MaxProducers = 1024

// Speed of a replay: 0 is as fast as acks allow, 1 the original, 20 twenty times that.
type Speed float64

// ParseSpeed reads "max", "original" or "20x".
func ParseSpeed(s string) (Speed, error) {
	switch s {
	case "max":
		return 0, nil
	case "original":
		return 1, nil
	}
	factor, ok := strings.CutSuffix(s, "x")
	v, err := strconv.ParseFloat(factor, 64)
	if !ok || err != nil || !(v > 0 && v <= 1e9) { // false for NaN, too
		return 0, fmt.Errorf("speed %q: want max, original, or a factor such as 20x", s)
	}
	return Speed(v), nil
}

// ReplayOptions of Replay.
type ReplayOptions struct {
	Connect   client.Options
	Rows      *dataset.Reader
	Speed     Speed
	Producers int // at least 1; with 1 the stream has the file's order, with more each topic has
	Payload   dataset.PayloadKind
	Inflight  int           // messages in flight per producer; 0: the client's default
	Progress  func(n int64) // settled messages; may be nil; called by many goroutines
}

// Replay publishes every row of a dataset and waits for every outcome. A row that the cluster refuses is counted and the
// rest goes on; the error is of the file, of setting up, or of a producer that can publish no more.
func Replay(ctx context.Context, o ReplayOptions) (Result, error) {
	if o.Producers < 1 || o.Producers > MaxProducers {
		return Result{}, fmt.Errorf("load: %d producers: 1 to %d", o.Producers, MaxProducers)
	}
	c, err := client.Connect(ctx, o.Connect)
	if err != nil {
		return Result{}, err
	}
	defer c.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	players, err := openPlayers(ctx, c, o, cancel)
	if err != nil {
		return Result{}, err
	}
	began := time.Now()
	var wg sync.WaitGroup
	for _, p := range players {
		wg.Go(func() { p.run(ctx) })
	}
	err = deal(ctx, o, players)
	for _, p := range players {
		close(p.in)
	}
	wg.Wait()
	elapsed := time.Since(began)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return sumPlayers(players, elapsed), err
}

func sumPlayers(players []*player, elapsed time.Duration) Result {
	var published, bytes int64
	meters := make([]*meter, len(players))
	for i, p := range players {
		meters[i] = p.meter
		published += p.published
		bytes += p.bytes
	}
	return merge(meters, published, bytes, elapsed)
}

// chunk is rows on their way to a producer, with the names they point into.
type chunk struct {
	rows  []dataset.Row
	names []byte
}

// add copies a row, whose topic is valid only until the next is read.
func (c *chunk) add(row dataset.Row) {
	start := len(c.names)
	c.names = append(c.names, row.Topic...)
	row.Topic = c.names[start:len(c.names):len(c.names)]
	c.rows = append(c.rows, row)
}

// deal reads the file and gives each row to the producer of its topic, at the wanted speed.
func deal(ctx context.Context, o ReplayOptions, players []*player) error {
	clock := &replayClock{speed: o.Speed}
	for {
		row, err := o.Rows.Next()
		if err == nil && clock.ahead(row.Seconds) > 0 {
			err = dealAll(ctx, players)
			if err == nil {
				err = clock.wait(ctx, row.Seconds)
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				return dealAll(ctx, players)
			}
			return err
		}
		p := players[xxhash.Sum64(row.Topic)%uint64(len(players))]
		p.next.add(row)
		if len(p.next.rows) >= chunkRows {
			if err := p.deal(ctx); err != nil {
				return err
			}
		}
	}
}

func dealAll(ctx context.Context, players []*player) error {
	for _, p := range players {
		if err := p.deal(ctx); err != nil {
			return err
		}
	}
	return nil
}

// replayClock maps the file's time to the wall's. Not used at full speed.
type replayClock struct {
	speed   Speed
	started time.Time
	origin  int64 // the first row's seconds
}

// ahead is how long before its time a row is.
func (c *replayClock) ahead(seconds int64) time.Duration {
	if c.speed == 0 {
		return 0
	}
	if c.started.IsZero() {
		c.started, c.origin = time.Now(), seconds
	}
	due := float64(seconds-c.origin) / float64(c.speed)
	return time.Duration(due*float64(time.Second)) - time.Since(c.started)
}

func (c *replayClock) wait(ctx context.Context, seconds int64) error {
	if !pause.For(ctx, c.ahead(seconds)) {
		return ctx.Err()
	}
	return nil
}

// player is one producer of a replay.
type player struct {
	producer *client.Producer
	meter    *meter
	kind     dataset.PayloadKind
	in       chan *chunk
	next     *chunk // being filled by deal

	// Of run's goroutine until it ends.
	published, bytes int64
	payload          []byte
	abort            context.CancelCauseFunc
}

func openPlayers(ctx context.Context, c *client.Client, o ReplayOptions, abort context.CancelCauseFunc) ([]*player, error) {
	players := make([]*player, o.Producers)
	for i := range players {
		p := &player{meter: newMeter(o.Progress), kind: o.Payload, in: make(chan *chunk, chunksWaiting), next: &chunk{}, abort: abort}
		var err error
		p.producer, err = c.Producer(ctx, client.ProducerOptions{MaxInflightMessages: o.Inflight, OnAck: p.meter.onAck})
		if err != nil {
			return nil, err
		}
		players[i] = p
	}
	return players, nil
}

// deal hands over what was gathered.
func (p *player) deal(ctx context.Context) error {
	if len(p.next.rows) == 0 {
		return nil
	}
	select {
	case p.in <- p.next:
		p.next = &chunk{rows: make([]dataset.Row, 0, chunkRows)}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run publishes what comes in until in is closed, then waits for all outcomes.
func (p *player) run(ctx context.Context) {
	for c := range p.in {
		for _, row := range c.rows {
			if ctx.Err() != nil {
				break
			}
			p.publish(ctx, row)
		}
	}
	// Outcomes are told to the meter one by one; what Flush returns is the first of them again.
	_ = p.producer.Flush(ctx)
}

func (p *player) publish(ctx context.Context, row dataset.Row) {
	p.payload = p.kind.AppendPayload(p.payload[:0], row.Number, row.Bytes)
	err := p.producer.Publish(ctx, string(row.Topic), p.payload)
	switch {
	case err == nil:
		p.published++
		p.bytes += int64(row.Bytes)
	case errors.Is(err, client.ErrBadTopic), errors.Is(err, client.ErrTooLarge):
		p.meter.fail(1, fmt.Errorf("row %d: %w", row.Number, err))
	default:
		p.meter.fail(1, fmt.Errorf("row %d: %w", row.Number, err))
		p.abort(fmt.Errorf("replay: row %d: %w", row.Number, err))
	}
}
