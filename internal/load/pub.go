package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cantus-bus/cantus/client"
)

// PubOptions of Pub.
type PubOptions struct {
	Connect client.Options
	Topic   string
	Headers []client.Header
	Payload []byte
	Lines   io.Reader     // if not nil, each line is a message, instead of Payload
	Wait    time.Duration // how long one message may look for a leader
}

// Pub publishes one message, or one for each line, and tells every ack in order. It ends at the first failure.
func Pub(ctx context.Context, o PubOptions, acked func(client.Ack) error) error {
	o.Connect.RetryTimeout = o.Wait
	c, err := client.Connect(ctx, o.Connect)
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := c.Producer(ctx, client.ProducerOptions{})
	if err != nil {
		return err
	}
	if o.Lines != nil {
		return pubLines(ctx, p, o, acked)
	}
	ack, err := p.PublishSync(ctx, o.Topic, o.Payload, o.Headers...)
	if err != nil {
		return err
	}
	return acked(ack)
}

// firstError keeps the first error that anybody reports.
type firstError struct {
	mu  sync.Mutex
	err error
}

func (f *firstError) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

func (f *firstError) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func pubLines(ctx context.Context, p *client.Producer, o PubOptions, acked func(client.Ack) error) error {
	var failed firstError
	done := func(ack client.Ack, err error) {
		if err == nil && failed.get() == nil {
			err = acked(ack)
		}
		if err != nil {
			failed.set(err)
		}
	}
	lines := bufio.NewScanner(o.Lines)
	lines.Buffer(nil, client.MaxPayload+1)
	n := 0
	for lines.Scan() && failed.get() == nil {
		n++
		if err := p.PublishAsync(ctx, o.Topic, lines.Bytes(), done, o.Headers...); err != nil {
			failed.set(fmt.Errorf("line %d: %w", n, err))
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		failed.set(fmt.Errorf("line %d is longer than a message may be, %d bytes: the lines before it were published", n+1, client.MaxPayload))
	} else if err != nil {
		failed.set(fmt.Errorf("line %d: %w", n+1, err))
	}
	if err := p.Flush(ctx); err != nil {
		failed.set(err)
	}
	return failed.get()
}
