// Package client publishes to a Cantus cluster and reads from it.
//
// Cantus keeps one totally ordered stream of messages. Each message has a topic, a path such as "app/orders/new"; a
// reader names the parts of the topic tree that it wants and gets their messages in stream order.
//
// # Publishing
//
//	c, err := client.Connect(ctx, client.Options{Servers: []string{"localhost:4790"}})
//	p, err := c.Producer(ctx, client.ProducerOptions{})
//	ack, err := p.PublishSync(ctx, "app/orders/new", []byte(`{"id":1}`)) // ack.Seq is its place in the stream
//
// PublishSync returns when the message is on the disks of a majority. Publish does not wait: messages are gathered into
// batches, many of which are on their way at once; ProducerOptions.OnAck or Flush tells how they fared. PublishAtomic
// publishes several messages together or not at all, if wanted only when certain topics have not moved.
//
// A producer publishes each message exactly once. When a server is lost it sends what is not acknowledged again, under
// the same numbers, to the next leader, and the cluster drops what it has. Only after RetryTimeout is a message given up;
// the error then says truly whether it was not executed (ErrUnavailable) or nobody knows (ErrUnknownFate).
//
// # Reading
//
//	sub, err := c.Subscribe(ctx, client.SubscribeOptions{Filters: []string{"app/orders/**"}, From: client.Now()})
//	for msg, err := range sub.Messages(ctx) {
//		...
//	}
//
// Messages come in seq order, none missing, none twice. A lost connection is not an error: the subscription goes on at
// another node after the last message. Each frame says which message comes before it, so that a gap would be seen; it is
// healed by starting over and never delivered past. ToCaughtUp ends when everything that was there at the opening was
// read. Position is what to store for resuming later: Seq(position+1).
//
// # Single messages
//
//	msg, err := c.Get(ctx, "app/config/limits")             // the last one of a topic
//	msg, err := c.GetAt(ctx, 4711)                          // the one with a seq
//	for msg, err := range c.GetAll(ctx, []string{"app/config/**"}) { // the last one of each topic, as of one seq
//		...
//	}
//
// Any node answers with what it has; MinSeq makes sure that this includes what the client knows to exist, Linearizable that it includes
// all that was acknowledged to anyone. GetAll with SnapshotSeq and a subscription from the seq after it keep a copy of the last values up
// to date without a gap.
//
// # Testing
//
// The package fake has a broker in memory that speaks the same protocol and can lose connections, acks and frames on
// demand. The package conformance has the tests that it and the real server pass.
//
// # What this package does not do
//
// It keeps nothing on disk: messages that were not acknowledged when the process ends are of unknown fate. A program
// that must know opens its producer under a fixed id (NamedProducer) and compares what it finds in the stream.
package client
