package clustertest

import (
	"context"
	"fmt"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/tipstore"
)

// Message is one message to publish or as read.
type Message struct {
	Topic   string
	Payload string
	Seq     uint64
}

// Batch lays out a batch whose topics are new names.
func Batch(producer record.ProducerID, epoch uint32, number uint64, msgs ...Message) (record.Batch, []string) {
	var b record.BatchBuilder
	var names []string
	b.Reset(nil, nil)
	for _, m := range msgs {
		names = append(names, m.Topic)
		if err := b.Add(record.NewTopic|uint32(len(names)-1), nil, []byte(m.Payload)); err != nil {
			panic(fmt.Sprintf("clustertest: batch: %v", err)) // the test's fault
		}
	}
	return b.Finish(producer, epoch, number, false), names
}

// Publish submits messages as one batch without a producer and waits for its outcome.
func Publish(ctx context.Context, b cluster.Broker, msgs ...Message) (fsm.Result, error) {
	return PublishAs(ctx, b, record.ProducerID{}, 0, 0, msgs...)
}

// PublishAs submits messages as one batch of a producer and waits for its outcome.
func PublishAs(ctx context.Context, b cluster.Broker, p record.ProducerID, epoch uint32, number uint64, msgs ...Message) (fsm.Result, error) {
	batch, names := Batch(p, epoch, number, msgs...)
	done := make(chan fsm.Result, 1)
	s := &cluster.Submission{Batch: batch, Names: names, Complete: func(_ *cluster.Submission, r fsm.Result) { done <- r }}
	if err := b.Submit(ctx, s); err != nil {
		return fsm.Result{}, err
	}
	return <-done, nil
}

// ReadAll reads what the stream's tip holds now under the filters.
func ReadAll(s *cluster.Stream, filters ...string) ([]Message, error) {
	fs, err := topic.ParseFilters(filters)
	if err != nil {
		return nil, err
	}
	r, err := s.OpenReader(cluster.ReaderOptions{Filters: fs, Start: wire.StartFirst})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var out []Message
	for r.Position() < r.Head() {
		var v tipstore.View
		if err := r.Read(&v, tipstore.Limit{Bytes: 1 << 20, UpTo: r.Head()}); err != nil {
			return nil, err
		}
		for _, part := range v.Parts {
			for len(part) > 0 {
				rec, rest, err := record.Next(part)
				if err != nil {
					return nil, err
				}
				out = append(out, Message{Topic: s.Table().Name(topic.ID(rec.Topic())), Payload: string(rec.Payload()), Seq: rec.Seq()})
				part = rest
			}
		}
		v.Release()
	}
	return out, nil
}
