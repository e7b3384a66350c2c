package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/client/fake"
)

// Publish and read back. A program would connect to real servers: client.Options{Servers: []string{"localhost:4790"}}.
func Example() {
	broker := fake.New(fake.Options{})
	defer broker.Close()
	ctx := context.Background()

	c, err := client.Connect(ctx, broker.ClientOptions())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	p, err := c.Producer(ctx, client.ProducerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, topic := range []string{"app/orders/new", "app/users", "app/orders/paid"} {
		ack, err := p.PublishSync(ctx, topic, []byte("hello"))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("published", topic, "as", ack.Seq)
	}

	sub, err := c.Subscribe(ctx, client.SubscribeOptions{Filters: []string{"app/orders/**"}})
	if err != nil {
		log.Fatal(err)
	}
	defer sub.Close()
	for msg, err := range sub.ToCaughtUp(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d %s %s\n", msg.Seq, msg.Topic, msg.Payload)
	}
	// Output:
	// published app/orders/new as 1
	// published app/users as 2
	// published app/orders/paid as 3
	// 1 app/orders/new hello
	// 3 app/orders/paid hello
}

// Publish without waiting: outcomes are told batch by batch, and Flush waits for all.
func ExampleProducer_Publish() {
	broker := fake.New(fake.Options{})
	defer broker.Close()
	ctx := context.Background()
	c, _ := client.Connect(ctx, broker.ClientOptions())
	defer c.Close()

	published := 0
	p, err := c.Producer(ctx, client.ProducerOptions{OnAck: func(a client.BatchAck) {
		if a.Err != nil {
			log.Print(a.Err)
			return
		}
		published += a.Count
	}})
	if err != nil {
		log.Fatal(err)
	}
	for i := range 10_000 {
		if err := p.Publish(ctx, "load/test", fmt.Append(nil, i)); err != nil {
			log.Fatal(err)
		}
	}
	if err := p.Close(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(published)
	// Output: 10000
}

// Change a value only if nobody else has changed it: the topic's last seq is its version.
func ExampleProducer_PublishAtomic() {
	broker := fake.New(fake.Options{})
	defer broker.Close()
	ctx := context.Background()
	c, _ := client.Connect(ctx, broker.ClientOptions())
	defer c.Close()
	p, _ := c.Producer(ctx, client.ProducerOptions{})

	set := func(value string, version uint64) {
		seq, err := p.PublishAtomic(ctx,
			[]client.Outgoing{{Topic: "config/limit", Payload: []byte(value)}},
			[]client.Precondition{{Topic: "config/limit", LastSeq: version}})
		var e *client.Error
		switch {
		case errors.Is(err, client.ErrPreconditionFailed) && errors.As(err, &e):
			fmt.Println("somebody was faster: the version is", e.Detail)
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println("version", seq)
		}
	}
	set("10", 0)
	set("20", 1)
	set("30", 1)
	// Output:
	// version 1
	// version 2
	// somebody was faster: the version is 2
}

// Resume later: store the position together with what was made of the messages.
func ExampleSubscription_Position() {
	broker := fake.New(fake.Options{})
	defer broker.Close()
	for i := range 4 {
		_, _ = broker.Publish("jobs", fmt.Append(nil, "job ", i))
	}
	ctx := context.Background()
	c, _ := client.Connect(ctx, broker.ClientOptions())
	defer c.Close()

	work := func(position uint64, n int) uint64 {
		sub, err := c.Subscribe(ctx, client.SubscribeOptions{Filters: []string{"jobs"}, From: client.Seq(position + 1)})
		if err != nil {
			log.Fatal(err)
		}
		defer sub.Close()
		for msg, err := range sub.Messages(ctx) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("%s\n", msg.Payload)
			if n--; n == 0 {
				break
			}
		}
		return sub.Position()
	}
	stored := work(0, 2)
	fmt.Println("restart after", stored)
	work(stored, 2)
	// Output:
	// job 0
	// job 1
	// restart after 2
	// job 2
	// job 3
}

// Read in batches: the fastest way, without an allocation per message.
func ExampleSubscription_NextBatch() {
	broker := fake.New(fake.Options{})
	defer broker.Close()
	for i := range 1000 {
		_, _ = broker.Publish("metrics/cpu", fmt.Append(nil, i))
	}
	ctx := context.Background()
	c, _ := client.Connect(ctx, broker.ClientOptions())
	defer c.Close()
	sub, err := c.Subscribe(ctx, client.SubscribeOptions{Filters: []string{"metrics/**"}})
	if err != nil {
		log.Fatal(err)
	}
	defer sub.Close()

	messages, bytes := 0, 0
	for {
		batch, err := sub.NextBatch(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if batch.CaughtUp() {
			break
		}
		for msg := range batch.All() {
			messages++
			bytes += len(msg.Payload)
		}
	}
	fmt.Println(messages, "messages,", bytes, "bytes")
	// Output: 1000 messages, 2890 bytes
}
