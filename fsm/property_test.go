package fsm

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

var topicPool = []string{"a", "a/b", "a/b/c", "a/b/c/d", "x", "x/y", "x/z", "long segment/with.dots/0", "long segment/with.dots/1"}

// world generates entries that a proposer could make, right or wrong, with a model beside.
type world struct {
	*machineTest
	r     *rapid.T
	model *model
	sent  []batchSpec // all batches of producers so far, for retries
	now   int64
}

// TestMatchesModel holds results, messages, topics and producers against the slow obvious model.
func TestMatchesModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		maxTopics, maxProducers := rapid.IntRange(3, 12).Draw(r, "max topics"), rapid.IntRange(1, 4).Draw(r, "max producers")
		w := &world{machineTest: newMachineTest(t, maxTopics, maxProducers), r: r, model: newModel(maxTopics, maxProducers)}
		for range rapid.IntRange(1, 200).Draw(r, "entries") {
			w.step()
		}
		if err := w.model.checkAgainst(w.machineTest); err != nil {
			r.Fatal(err)
		}
		w.checkMessages()
	})
}

// step makes and applies one entry.
func (w *world) step() {
	w.now += int64(rapid.IntRange(0, 3).Draw(w.r, "time"))
	var got, want []Result
	switch k := rapid.IntRange(0, 19).Draw(w.r, "kind"); {
	case k == 0:
		cutoff := w.now - int64(rapid.IntRange(0, 60).Draw(w.r, "age"))
		got = append(got, w.command(record.KindExpireProducers, w.now, ExpireBody(cutoff)))
		want = append(want, w.model.expire(cutoff))
	case k <= 2 || len(w.model.producers) == 0:
		p := w.producer()
		got = append(got, w.command(record.KindOpenProducer, w.now, OpenProducerBody(producerID(p))))
		want = append(want, w.model.open(p, w.now))
	default:
		var specs []batchSpec
		for range rapid.IntRange(1, 6).Draw(w.r, "batches") {
			s := w.batch()
			specs = append(specs, s)
			want = append(want, w.model.batch(s, w.now))
		}
		got = w.publish(w.now, func(string) bool { return rapid.Bool().Draw(w.r, "new") }, specs...)
	}
	if !slices.Equal(got, want) {
		w.r.Fatalf("entry %d: results\n%+v, want\n%+v", w.index, got, want)
	}
	if w.m.LastSeq() != w.model.seq || w.m.LastTime() != w.now || w.m.AppliedIndex() != w.index {
		w.r.Fatalf("entry %d: seq %d, want %d; time %d, want %d", w.index, w.m.LastSeq(), w.model.seq, w.m.LastTime(), w.now)
	}
}

func (w *world) producer() byte { return byte(rapid.IntRange('p', 's').Draw(w.r, "producer")) }

// batch is the next of a producer, or anything else that could arrive. The model stands where the machine will stand before it.
func (w *world) batch() batchSpec {
	how := rapid.IntRange(0, 11).Draw(w.r, "how")
	if how == 0 && len(w.sent) > 0 {
		return rapid.SampledFrom(w.sent).Draw(w.r, "retry")
	}
	s := batchSpec{topics: rapid.SliceOfN(rapid.SampledFrom(topicPool), 1, 3).Draw(w.r, "topics")}
	if how > 9 {
		s.pre = w.preconditions()
	}
	if how == 1 {
		return s
	}
	s.producer = w.producer()
	s.epoch, s.number = 1, 1
	if p := w.model.producers[s.producer]; p != nil {
		s.epoch, s.number = p.epoch, uint64(len(p.numbers))+1
	}
	switch how {
	case 2:
		s.number = uint64(max(1, int(s.number)+rapid.IntRange(-3, 3).Draw(w.r, "shift")))
	case 3:
		s.epoch = max(1, s.epoch+uint32(rapid.IntRange(0, 2).Draw(w.r, "epoch"))-1)
	}
	w.sent = append(w.sent, s)
	return s
}

// preconditions hold mostly.
func (w *world) preconditions() (pre []preSpec) {
	for _, name := range rapid.SliceOfN(rapid.SampledFrom(topicPool), 1, 3).Draw(w.r, "preconditions") {
		c := preSpec{topic: name}
		if t := w.model.topics[name]; t != nil {
			c.lastSeq = t.lastSeq
		}
		if rapid.IntRange(0, 4).Draw(w.r, "wrong") == 0 {
			c.lastSeq++
		}
		pre = append(pre, c)
	}
	return pre
}

func (w *world) checkMessages() {
	run := w.mem.stored[:w.mem.visible]
	for i, want := range w.model.log {
		if len(run) == 0 {
			w.r.Fatalf("%d messages, want %d", i, len(w.model.log))
		}
		rec := record.First(run)
		run = run[record.Scan(run):]
		got := modelMessage{w.m.table.Name(topic.ID(rec.Topic())), string(rec.Payload()), rec.Time()}
		if got != want || rec.Seq() != uint64(i)+1 {
			w.r.Fatalf("message %d: seq %d %+v, want %+v", i+1, rec.Seq(), got, want)
		}
	}
	if len(run) != 0 {
		w.r.Fatalf("more than %d messages", len(w.model.log))
	}
}

// TestBatchBoundaries cuts the same batches into entries in two ways, on two instances: what is published, what the publishers
// hear and the digest of the state are the same. A third instance restarts: it replays the first one's log.
func TestBatchBoundaries(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		maxTopics := rapid.IntRange(5, 12).Draw(r, "max topics")
		w := &world{machineTest: newMachineTest(t, maxTopics, 4), r: r, model: newModel(maxTopics, 4)}
		var steps []batchSpec // an open producer is a batch without topics
		for range rapid.IntRange(1, 120).Draw(r, "batches") {
			s := batchSpec{producer: w.producer()}
			if rapid.IntRange(0, 7).Draw(r, "open") == 0 {
				w.model.open(s.producer, 1)
			} else {
				s = w.batch()
				w.model.batch(s, 1)
			}
			steps = append(steps, s)
		}
		a, b := w.machineTest, newMachineTest(t, maxTopics, 4)
		a.cut(r, steps)
		b.cut(r, steps)
		if err := compare(a, b); err != nil {
			r.Fatalf("cut differently: %v", err)
		}
		if err := compare(a, a.replay()); err != nil {
			r.Fatalf("after a restart: %v", err)
		}
		w.checkMessages()
	})
}

// cut applies the steps in entries of random sizes, some topics known by number and some by name.
func (t *machineTest) cut(r *rapid.T, steps []batchSpec) {
	fresh := func(string) bool { return rapid.Bool().Draw(r, "new") }
	var held []batchSpec
	flush := func() {
		if len(held) > 0 {
			t.publish(1, fresh, held...)
		}
		held = nil
	}
	for _, s := range steps {
		if len(s.topics) == 0 {
			flush()
			t.command(record.KindOpenProducer, 1, OpenProducerBody(producerID(s.producer)))
			continue
		}
		held = append(held, s)
		if rapid.IntRange(0, 3).Draw(r, "cut") == 0 {
			flush()
		}
	}
	flush()
}

// TestRestartAtEveryEntry: an instance that replays any prefix of the log and then goes on ends in the same state, and so the
// state after each prefix is a function of the prefix alone.
func TestRestartAtEveryEntry(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := &world{machineTest: newMachineTest(t, 9, 3), r: r, model: newModel(9, 3)}
		var digests []string
		for range rapid.IntRange(1, 30).Draw(r, "entries") {
			w.step()
			digests = append(digests, fmt.Sprint(w.m.Digest()))
		}
		again := newMachineTest(t, 9, 3)
		for i, e := range w.entries {
			again.apply(e)
			if got := fmt.Sprint(again.m.Digest()); got != digests[i] {
				r.Fatalf("after entry %d:\n%s, want\n%s", i+1, got, digests[i])
			}
		}
	})
}
