package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/internal/units"
)

// partitionOf is the first two segments of a topic.
func partitionOf(topic string) string {
	parts := strings.SplitN(topic, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

// openSubsets starts the readers of parts of the tree, at a follower if there is one.
func (r *run) openSubsets(ctx context.Context, leader *node) ([]*reading, error) {
	at := leader
	for _, n := range r.nodes.list {
		if n != leader {
			at = n
		}
	}
	var readings []*reading
	for _, filters := range subsets {
		reading, err := openReading(ctx, r.pub.client, r.stream, filters, at.config.Listen.Client, 0)
		if err != nil {
			endReadings(readings)
			return nil, err
		}
		go reading.run(ctx, false)
		readings = append(readings, reading)
	}
	r.o.Say("reading %d parts of the topic tree from node %s, checking every message", len(subsets), at.name)
	return readings, nil
}

func endReadings(readings []*reading) {
	for _, reading := range readings {
		reading.end()
	}
}

// publishThroughFailover publishes for the wanted time, or longer if the failover takes longer; midway the leader is killed.
func (r *run) publishThroughFailover(ctx context.Context, leader *node, term uint64, readings []*reading) error {
	most := uint64(mostBytes) / uint64(r.stream.meanBytes())
	rate := min(fullRate, float64(most)/r.o.publishing().Seconds())
	began := time.Now()
	publishing, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- r.pub.run(publishing, rate, most) }()
	failover := r.failover(ctx, leader, term, readings)
	if failover == nil {
		pause.For(ctx, time.Until(began.Add(r.o.publishing())))
	}
	stop()
	if err := errors.Join(failover, <-ended); err != nil {
		return err
	}
	settling, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	// A message that was given up is counted in the outcome; here only the time may end.
	if err := r.pub.producer.Flush(settling); err != nil && settling.Err() != nil {
		return fmt.Errorf("wait for the last acks: %w", err)
	}
	elapsed := time.Since(began)
	acked, _, failed, err := r.pub.outcome()
	sent := r.pub.sent.Load()
	r.result.Published, r.result.Acked, r.result.NotPublished = sent, acked, uint64(len(failed))
	r.result.PublishPerS = float64(acked) / elapsed.Seconds()
	if err != nil {
		r.result.Error = err.Error()
	}
	r.o.Say("published %s messages in %s, %s acknowledged (%s, paced)", units.Count(int64(sent)), units.Millis(elapsed),
		units.Count(int64(acked)), units.Rate(r.result.PublishPerS))
	return nil
}

// failover kills the leader midway, waits until publishing goes on, and brings the node back.
func (r *run) failover(ctx context.Context, leader *node, term uint64, readings []*reading) error {
	pause.For(ctx, r.o.publishing()/2)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var read uint64
	for _, reading := range readings {
		read += reading.count.Load()
	}
	if err := r.planOnce(ctx); err != nil {
		return err
	}
	r.o.Say("readers have %s messages; killing the leader %s (process %d) with SIGKILL", units.Count(int64(read)), leader.name, leader.pid())
	killed := time.Now()
	leader.kill()
	resumed := r.pub.nextAck()
	majority := len(r.nodes.list) >= 3
	if !majority {
		r.o.Say("without it there is no majority: starting it again at once")
		if err := r.restart(ctx, leader); err != nil {
			return err
		}
	}
	var after time.Duration
	select {
	case at := <-resumed:
		after = at.Sub(killed)
	case <-time.After(resumeWait):
		return fmt.Errorf("no acks within %v of the leader's death%s", resumeWait, r.nodes.logTails())
	case <-ctx.Done():
		return ctx.Err()
	}
	now, status, err := r.leader(ctx)
	if err != nil {
		return err
	}
	r.result.FailoverMS = float64(after) / float64(time.Millisecond)
	r.result.Elections = status.Term - term
	r.o.Say("publishing went on %s after the kill; node %s leads (term %d)", units.Millis(after), now.name, status.Term)
	if majority {
		return r.restart(ctx, leader)
	}
	return nil
}

func (r *run) restart(ctx context.Context, n *node) error {
	began := time.Now()
	if err := n.start(r.nodes.binary); err != nil {
		return err
	}
	if err := n.waitReady(ctx); err != nil {
		return err
	}
	r.o.Say("node %s is back after %s", n.name, units.Millis(time.Since(began)))
	return nil
}

// checkSubsets waits until the readers have everything and sums up their verdicts.
func (r *run) checkSubsets(ctx context.Context, readings []*reading) error {
	ctx, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	_, lastSeq, failed, _ := r.pub.outcome()
	for _, reading := range readings {
		if err := reading.waitPosition(ctx, lastSeq); err != nil {
			return err
		}
	}
	endReadings(readings)
	for _, reading := range readings {
		r.result.Faults.add(reading.checker.finish(r.pub.sent.Load(), failed))
		r.result.SubsetMessages += reading.checker.count
		r.result.FromHistory += reading.history
	}
	r.o.Say("the readers of parts got %s messages in all", units.Count(int64(r.result.SubsetMessages)))
	return nil
}

// checkAllNodes reads the whole stream from every node, over a connection to that node alone.
func (r *run) checkAllNodes(ctx context.Context) error {
	_, lastSeq, failed, _ := r.pub.outcome()
	for _, n := range r.nodes.list {
		began := time.Now()
		count, history, err := r.readWhole(ctx, n, lastSeq, failed)
		if err != nil {
			return err
		}
		r.result.FullMessages += count
		r.result.FromHistory += history
		elapsed := time.Since(began)
		r.o.Say("node %s: read all %s messages from the first on, %s of them from disk, %s", n.name, units.Count(int64(count)),
			units.Count(int64(history)), units.Rate(float64(count)/elapsed.Seconds()))
	}
	return nil
}

func (r *run) readWhole(ctx context.Context, n *node, lastSeq uint64, failed map[uint64]bool) (count, history uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	addr := n.config.Listen.Client
	c, err := client.Connect(ctx, client.Options{Servers: []string{addr}, Name: "cantus demo", ConnectWait: settleWait})
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	reading, err := openReading(ctx, c, r.stream, []string{"**"}, addr, lastSeq)
	if err != nil {
		return 0, 0, err
	}
	reading.run(ctx, true)
	defer reading.sub.Close()
	if reading.err != nil {
		return 0, 0, fmt.Errorf("read everything from node %s: %w", n.name, reading.err)
	}
	r.result.Faults.add(reading.checker.finish(r.pub.sent.Load(), failed))
	return reading.checker.count, reading.history, nil
}
