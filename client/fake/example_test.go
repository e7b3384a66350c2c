package fake_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/client/fake"
)

// Test that a program publishes each message once although acks are lost and the leader dies.
func Example() {
	broker := fake.New(fake.Options{Nodes: 3})
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

	broker.LoseAcks(1)
	if _, err := p.PublishSync(ctx, "a", []byte("one")); err != nil {
		log.Fatal(err)
	}
	broker.Stop(broker.Leader())
	broker.SetLeader(1)
	if _, err := p.PublishSync(ctx, "a", []byte("two")); err != nil {
		log.Fatal(err)
	}
	for _, m := range broker.Messages() {
		fmt.Printf("%d %s\n", m.Seq, m.Payload)
	}
	// Output:
	// 1 one
	// 2 two
}
