package load

import (
	"context"
	"strings"
	"time"

	"github.com/cantus-bus/cantus/client"
)

// GetOptions of Get.
type GetOptions struct {
	Connect      client.Options
	Filters      []string      // topics and subtrees; none: the message with Seq
	Seq          uint64        // with filters: later messages do not count; 0: all do
	MinSeq       uint64        // the node must have it
	Linearizable bool          // see all that was acknowledged before
	Wait         time.Duration // for what the node does not have yet
	Timeout      time.Duration // for a node that answers
}

// Get reads single messages: one by its seq, or the last of each topic under the filters. Nothing to be found is an error if one message or
// one topic was asked for.
func Get(ctx context.Context, o GetOptions, message func(*client.Message) error) error {
	o.Connect.RetryTimeout = o.Timeout
	c, err := client.Connect(ctx, o.Connect)
	if err != nil {
		return err
	}
	defer c.Close()
	options := []client.GetOption{client.MinSeq(o.MinSeq), client.MaxWait(o.Wait)}
	if o.Linearizable {
		options = append(options, client.Linearizable())
	}
	if len(o.Filters) == 0 {
		m, err := c.GetAt(ctx, o.Seq, options...)
		if err != nil {
			return err
		}
		return message(&m)
	}
	options = append(options, client.AsOf(o.Seq))
	if f := o.Filters[0]; len(o.Filters) == 1 && f != "**" && !strings.HasSuffix(f, "/**") {
		m, err := c.Get(ctx, f, options...)
		if err != nil {
			return err
		}
		return message(&m)
	}
	for m, err := range c.GetAll(ctx, o.Filters, options...) {
		if err != nil {
			return err
		}
		if err := message(&m); err != nil {
			return err
		}
	}
	return nil
}
