package demo

import (
	"testing"

	"github.com/cantus-bus/cantus/internal/dataset"
)

func testStream() *stream {
	rows := []dataset.Row{{Topic: []byte("a/x"), Bytes: 10}, {Topic: []byte("b/y"), Bytes: 100}, {Topic: []byte("a/z/q"), Bytes: 9999}}
	return &stream{rows: rows}
}

// deliver gives a checker the messages ids, with seqs in the order of delivery.
func deliver(c *checker, ids ...uint64) {
	for i, id := range ids {
		c.take(uint64(i+1), string(c.stream.topic(id)), c.stream.appendPayload(nil, id))
	}
}

func TestCheckerFindsEachFault(t *testing.T) {
	for name, test := range map[string]struct {
		filters []string
		ids     []uint64
		last    uint64
		failed  map[uint64]bool
		want    Faults
	}{
		"all well":           {[]string{"**"}, []uint64{1, 2, 3, 4, 5}, 5, nil, Faults{}},
		"all well, a subset": {[]string{"a/**"}, []uint64{1, 3, 4, 6, 7}, 8, nil, Faults{}},
		"nothing wanted":     {[]string{"c"}, nil, 100, nil, Faults{}},
		"one lost":           {[]string{"**"}, []uint64{1, 2, 4}, 4, nil, Faults{Lost: 1}},
		"the tail lost":      {[]string{"a/**"}, []uint64{1, 3}, 7, nil, Faults{Lost: 3}},
		"failed, not lost":   {[]string{"**"}, []uint64{1, 2, 4}, 4, map[uint64]bool{3: true}, Faults{}},
		"duplicated":         {[]string{"**"}, []uint64{1, 2, 2, 1, 3}, 3, nil, Faults{Duplicated: 2}},
		"out of order":       {[]string{"**"}, []uint64{1, 3, 2}, 3, nil, Faults{OutOfOrder: 1}},
		"outside the filter": {[]string{"a/**"}, []uint64{1, 2, 3}, 3, nil, Faults{Foreign: 1}},
	} {
		c := newChecker(testStream(), test.filters)
		deliver(c, test.ids...)
		if got := c.finish(test.last, test.failed); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestCheckerFindsForgeries(t *testing.T) {
	s := testStream()
	good := s.appendPayload(nil, 2)
	changed := append([]byte(nil), good...)
	changed[len(changed)-1] ^= 1
	for name, m := range map[string]struct {
		topic   string
		payload []byte
	}{
		"another topic":   {"a/x", good},
		"a changed byte":  {"b/y", changed},
		"a cut payload":   {"b/y", good[:len(good)-1]},
		"no id":           {"b/y", []byte("hello, this is a longer text")},
		"empty":           {"b/y", nil},
		"id out of place": {"b/y", s.appendPayload(nil, 3)},
	} {
		c := newChecker(s, []string{"**"})
		c.take(1, m.topic, m.payload)
		if c.faults != (Faults{Foreign: 1}) {
			t.Errorf("%s: %+v", name, c.faults)
		}
	}
	c := newChecker(s, []string{"**"})
	c.take(7, "a/x", s.appendPayload(nil, 1))
	c.take(7, "b/y", good)
	if c.faults != (Faults{OutOfOrder: 1}) {
		t.Errorf("a seq twice: %+v", c.faults)
	}
}

func TestPayloadSizes(t *testing.T) {
	s := testStream()
	for id, want := range map[uint64]int{1: minPayload, 2: 100, 3: maxPayload, 4: minPayload} {
		p := s.appendPayload(nil, id)
		if len(p) != want || parseID(p) != id {
			t.Errorf("message %d: %d bytes with id %d", id, len(p), parseID(p))
		}
	}
}
