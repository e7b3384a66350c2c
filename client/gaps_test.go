package client_test

import (
	"testing"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/client/fake"
)

// TestGapIsSeenAndHealed loses data frames on the way to a client with a small buffer: the chain of previous matching
// seqs shows each gap, and every message arrives all the same.
func TestGapIsSeenAndHealed(t *testing.T) {
	r := newRig(t, fake.Options{})
	const n, step = 20_000, 1000
	r.publish("a/b", n)
	s := r.subscribe(client.SubscribeOptions{Filters: []string{"a/**"}, BufferBytes: 64 << 10})
	for i := 0; i < n-5*step; i += step {
		r.wantPayloads(s, i, step)
		r.b.SkipData(1)
	}
	r.b.ClearFaults() // the last frame of all could not be missed
	r.wantPayloads(s, n-5*step, 5*step)
	if st := s.Stats(); st.Gaps < 5 {
		t.Errorf("stats are %+v, want a gap for most of the 15 lost frames", st)
	}
}

// TestGapBeforeProgress loses a frame that only a progress mark follows at first. The mark must not hide the loss.
func TestGapBeforeProgress(t *testing.T) {
	r := newRig(t, fake.Options{})
	s := r.subscribe(client.SubscribeOptions{Filters: []string{"a"}, From: client.Now()})
	r.publish("other", 10)
	r.b.SkipData(1)
	_, err := r.b.Publish("a", []byte("0"))
	r.must(err)
	r.publish("other", 10)
	_, err = r.b.Publish("a", []byte("1"))
	r.must(err)
	r.wantPayloads(s, 0, 2)
	if st := s.Stats(); st.Gaps != 1 {
		t.Errorf("stats are %+v, want one gap", st)
	}
}

// TestGapStaysAfterStart heals a gap before the first message of a subscription that began in the middle: what came
// before its beginning stays away.
func TestGapStaysAfterStart(t *testing.T) {
	r := newRig(t, fake.Options{})
	r.publish("a", 10)
	s := r.subscribe(client.SubscribeOptions{Filters: []string{"a"}, From: client.Now()})
	r.b.SkipData(1)
	r.publish("a", 3)
	r.wantPayloads(s, 0, 3)
}

// TestRepeatedFrame gets frames twice and delivers each message once.
func TestRepeatedFrame(t *testing.T) {
	r := newRig(t, fake.Options{})
	const n = 2000
	r.publish("a", n)
	s := r.subscribe(client.SubscribeOptions{Filters: []string{"a"}, BufferBytes: 1})
	for i := 0; i < n; i += 200 {
		r.b.RepeatData(1)
		r.wantPayloads(s, i, 200)
	}
	if st := s.Stats(); st.Gaps == 0 {
		t.Errorf("stats are %+v, want the repeated frames refused", st)
	}
}

// TestBrokenServer gives up when every frame is lost, with an error that says so, and can be asked again.
func TestBrokenServer(t *testing.T) {
	r := newRig(t, fake.Options{})
	s := r.subscribe(client.SubscribeOptions{Filters: []string{"a"}, BufferBytes: 4 << 10})
	r.b.RepeatData(1)
	r.publish("a", 1)
	r.wantPayloads(s, 0, 1)
	r.b.RepeatData(1 << 20)
	for i := range 100 {
		_, err := r.b.Publish("a", []byte{byte(i)})
		r.must(err)
	}
	var last error
	got := 0
	for _, err := range s.Messages(r.ctx) {
		if err != nil {
			last = err
			break
		}
		if got++; got == 100 {
			break
		}
	}
	if last != nil {
		r.wantError(last, client.ErrProtocol)
	}
}
