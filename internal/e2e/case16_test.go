package e2e

import (
	"testing"

	"github.com/cantus-bus/cantus/client"
)

// TestCase16IdleProducer: elsewhere, an idempotent producer that had been idle was refused. Here its identity outlives leader
// changes and the restart of every node: it goes on under the same epoch, and a session that came before it stays fenced.
func TestCase16IdleProducer(t *testing.T) {
	t.Parallel()
	w := start(t, 3, nil)
	c := w.connect()
	id := client.NamedProducer("idle")
	fenced := w.writer(w.connect(), "fenced", client.ProducerOptions{ID: id})
	if _, err := fenced.publishSync("idle/x", []byte("first session")); err != nil {
		t.Fatal(err)
	}
	idle, other := w.writer(c, "idle", client.ProducerOptions{ID: id}), w.writer(w.connect(), "other", client.ProducerOptions{})
	publish := func() {
		t.Helper()
		// A client that lost an answer asks again and is told that it was published before; the audit knows whether it was, and once.
		if a, err := idle.publishSync("idle/x", []byte("idle")); err != nil {
			t.Errorf("the idle producer was answered %+v, %v", a, err)
		}
	}
	epoch := idle.p.Epoch()
	publish()
	for i := range 3 {
		w.changeLeader(i == 1)
		for range 500 {
			other.publish("other/x", make([]byte, 100))
		}
		other.flush()
	}
	publish()
	w.restartAll()
	publish()
	if now := idle.p.Epoch(); now != epoch {
		t.Errorf("the producer's epoch is %d, it was %d", now, epoch)
	}
	if _, err := fenced.publishSync("idle/x", []byte("too late")); err == nil {
		t.Error("a fenced session could publish")
	}
	idle.close()
	other.close()
	w.audit()
}
