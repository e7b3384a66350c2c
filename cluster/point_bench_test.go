package cluster

import (
	"context"
	"fmt"
	"testing"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
	"github.com/cantus-bus/cantus/tipstore"
)

// pointStream has messages 100-byte messages on topics topics in 100 partitions, in turn; all but the newest ringBytes are in history.
func pointStream(b *testing.B, topics, messages, ringBytes int) *feeder {
	s, err := NewStream(StreamOptions{
		Tip:     tipstore.Options{ChunkBytes: 1 << 20, SizeBytes: int64(ringBytes)},
		History: &HistoryOptions{Dir: "history", FS: vfs.NewMem()},
	})
	if err != nil {
		b.Fatal(err)
	}
	f := &feeder{s: s}
	b.Cleanup(func() { f.close(b) })
	if err := f.windows(8 << 20); err != nil {
		b.Fatal(err)
	}
	names := make([]string, 0, 500)
	for i := range messages {
		if names = append(names, fmt.Sprintf("p/%d/%d", i%100, i%topics)); len(names) == cap(names) {
			if err := f.publish(int64(i), make([]byte, 100), names...); err != nil {
				b.Fatal(err)
			}
			names = names[:0]
		}
	}
	f.settled(b)
	return f
}

func BenchmarkPointReads(b *testing.B) {
	const topics, messages = 10_000, 400_000
	f := pointStream(b, topics, messages, 32<<20)
	s, ctx := f.s, context.Background()
	first, last := s.Tip().Bounds()
	all, err := topic.ParseFilters([]string{"**"})
	if err != nil {
		b.Fatal(err)
	}
	read := func(name string, fn func(i int) error) {
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if err := fn(i); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	read("MessageAt/tip", func(i int) error { _, err := s.MessageAt(ctx, last-uint64(i*7919)%(last-first)); return err })
	read("MessageAt/history", func(i int) error { _, err := s.MessageAt(ctx, 1+uint64(i*7919)%(first-1)); return err })
	name := func(i int) string { return fmt.Sprintf("p/%d/%d", i%100, i%topics) }
	read("Last/tip", func(i int) error { _, err := s.Last(ctx, name(i*7919), 0); return err })
	read("Last/as-of-10000-back", func(i int) error { _, err := s.Last(ctx, name(i*7919), last-10_000); return err })
	read("Last/as-of-history", func(i int) error { _, err := s.Last(ctx, name(i*7919), first/2); return err })
	read("LastEach/tip-1000", func(int) error { _, err := s.LastEach(ctx, LastQuery{Filters: all, Count: 1000}); return err })
	read("LastEach/as-of-10000-back-1000", func(int) error {
		_, err := s.LastEach(ctx, LastQuery{Filters: all, Count: 1000, Seq: last - 10_000})
		return err
	})
	read("LastEach/as-of-history-1000", func(int) error {
		_, err := s.LastEach(ctx, LastQuery{Filters: all, Count: 1000, Seq: first / 2})
		return err
	})
}
