package e2e

import (
	"errors"
	"testing"

	"github.com/cantus-bus/cantus/client"
)

// TestCase07SlowReader: elsewhere, a slow consumer was told to subscribe again and had lost its place. Here a reader that
// sleeps while the ring turns over gets in order what was sent ahead of it, then an error that names the oldest seq that is
// kept; it never goes on behind a silent gap. One that sleeps for less goes on as if nothing were.
func TestCase07SlowReader(t *testing.T) {
	t.Parallel()
	w := start(t, 3, nil)
	c := w.connect()
	x := w.writer(c, "w", client.ProducerOptions{})
	fill := func(bytes int64) { // messages of a kilobyte
		for until := w.ledger.bytes.Load() + bytes; w.ledger.bytes.Load() < until; x.flush() {
			for range 100 {
				x.publish("slow/a", make([]byte, 1<<10))
				x.publish("other/b", make([]byte, 1<<10))
			}
		}
	}
	x.publish("slow/a", nil)
	x.flush()
	open := func(name string, from client.Start) *session {
		s, err := w.subscribe(c, name, client.SubscribeOptions{Filters: []string{"slow/**"}, From: from, BufferBytes: 4 << 10, PreferFollower: true})
		w.must(err)
		return s
	}
	dozing, sleeping := open("dozing", client.Seq(1)), open("sleeping", client.Seq(1))
	w.must(dozing.messages(1, patience))
	w.must(sleeping.messages(1, patience))
	for range 5 {
		fill(2 << 20) // well under the ring of 8 MiB
		w.readTo([]*session{dozing}, w.ledger.head.Load())
	}
	sessions := []*session{dozing, sleeping}
	err := error(nil)
	for err == nil {
		err = sleeping.messages(1000, patience)
	}
	if !errors.Is(err, client.ErrGone) || sleeping.gone < 2 {
		t.Fatalf("the reader that slept: %v, want the oldest seq that is kept", err)
	}
	back := open("back", client.Seq(sleeping.gone))
	w.readTo([]*session{back}, w.ledger.head.Load())
	x.close()
	stream := w.audit()
	for _, s := range append(sessions, back) {
		s.close()
		s.check(stream)
	}
	if dozing.gone != 0 || dozing.upTo < w.ledger.head.Load() {
		t.Errorf("the reader that dozed stands at %d of %d, gone %d", dozing.upTo, w.ledger.head.Load(), dozing.gone)
	}
	t.Logf("slept after %d messages, the oldest kept was %d, then %d more", len(sleeping.got), sleeping.gone, len(back.got))
}

// TestCase07SlowReaderComesBackFromHistory: where history is kept, the reader that sleeps while the ring turns over goes on as if nothing
// were, without an error, from history and then live.
func TestCase07SlowReaderComesBackFromHistory(t *testing.T) {
	t.Parallel()
	w := start(t, 3, keepHistory)
	c := w.connect()
	x := w.writer(c, "w", client.ProducerOptions{})
	x.publish("slow/a", nil)
	x.flush()
	s, err := w.subscribe(c, "sleeping", client.SubscribeOptions{Filters: []string{"slow/**"}, From: client.Seq(1), BufferBytes: 4 << 10, PreferFollower: true})
	w.must(err)
	w.must(s.messages(1, patience))
	for range 2 {
		for until := w.ledger.bytes.Load() + 2*smallTip.SizeBytes; w.ledger.bytes.Load() < until; x.flush() {
			for range 100 {
				x.publish("slow/a", make([]byte, 1<<10))
				x.publish("other/b", make([]byte, 1<<10))
			}
		}
		w.readTo([]*session{s}, w.ledger.head.Load())
	}
	w.wantHistoryRead()
	x.publish("slow/a", []byte("live"))
	x.close()
	w.readTo([]*session{s}, w.ledger.head.Load())
	s.close()
	if s.resumed > 0 || s.gone != 0 {
		t.Errorf("resumed %d times, gone %d", s.resumed, s.gone)
	}
	s.check(w.audit())
}
