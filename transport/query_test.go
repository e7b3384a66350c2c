package transport_test

import (
	"fmt"
	"testing"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
)

func (p *peer) query(id uint32, q wire.Query) { p.send(wire.AppendQuery(nil, id, &q)) }

// expectAnswer wants an ANSWER with these messages, as "seq topic payload".
func (p *peer) expectAnswer(id uint32, want ...string) wire.Answer {
	p.t.Helper()
	f := p.expect(wire.TAnswer)
	a, err := wire.DecodeAnswer(f.Body)
	if err != nil || f.ID != id {
		p.t.Fatalf("answer %d: %v, want %d", f.ID, err, id)
	}
	var got []string
	for run := a.Run; len(run) > 0; run = run[record.Scan(run):] {
		rec := record.First(run)
		got = append(got, fmt.Sprintf("%d %s %s", rec.Seq(), a.Topics[len(got)], rec.Payload()))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		p.t.Fatalf("answer %d: %q, want %q", id, got, want)
	}
	return a
}

func TestQueries(t *testing.T) {
	f := start(t)
	p := f.connect()
	f.publish(message{"a/b", "one"}, message{"a/b/c", "two"}, message{"a/b", "three"}, message{"x", "four"})

	p.query(1, wire.Query{Seq: 2})
	p.expectAnswer(1, "2 a/b/c two")
	p.query(2, wire.Query{Kind: wire.QueryLast, Filters: []string{"a/b"}})
	p.expectAnswer(2, "3 a/b three")
	p.query(3, wire.Query{Kind: wire.QueryLast, Filters: []string{"a/b"}, Seq: 2})
	p.expectAnswer(3, "1 a/b one")
	p.query(4, wire.Query{Kind: wire.QueryLastEach, Filters: []string{"a/**", "x"}})
	if a := p.expectAnswer(4, "3 a/b three", "2 a/b/c two", "4 x four"); a.Seq != 4 || a.Next != 0 {
		t.Errorf("a snapshot at %d goes on at %d", a.Seq, a.Next)
	}
	p.query(5, wire.Query{Kind: wire.QueryLastEach, Filters: []string{"a/**", "x"}, Count: 2})
	a := p.expectAnswer(5, "3 a/b three", "2 a/b/c two")
	f.publish(message{"x", "five"})
	p.query(6, wire.Query{Kind: wire.QueryLastEach, Filters: []string{"a/**", "x"}, Seq: a.Seq, After: a.Next})
	p.expectAnswer(6, "4 x four")
	p.query(7, wire.Query{Kind: wire.QueryLastEach, Filters: []string{"none/**"}, Linearizable: true, WaitMS: 1000})
	p.expectAnswer(7)
	if n := f.metric("queried_messages_total"); n != 9 {
		t.Errorf("%v messages were counted", n)
	}
}

func TestQueriesThatFindNothing(t *testing.T) {
	f := start(t, smallRing)
	p := f.connect()
	for id, c := range []struct {
		q      wire.Query
		code   wire.Code
		detail uint64
	}{
		{wire.Query{Kind: wire.QueryLast, Filters: []string{"never"}}, wire.CodeNotFound, 0},
		{wire.Query{Kind: wire.QueryLast, Filters: []string{"a//b"}}, wire.CodeBadTopic, 0},
		{wire.Query{Kind: wire.QueryLast, Filters: []string{"a/**"}}, wire.CodeBadTopic, 0},
		{wire.Query{Kind: wire.QueryLastEach, Filters: []string{"a//b"}}, wire.CodeBadFilter, 0},
		{wire.Query{Kind: wire.QueryLastEach}, wire.CodeBadFilter, 0},
		{wire.Query{Kind: wire.QueryLastEach, Filters: make([]string, wire.MaxFilters+1)}, wire.CodeTooManyFilters, wire.MaxFilters},
		{wire.Query{Seq: 1}, wire.CodeNotYet, 0},
		{wire.Query{Seq: 7, WaitMS: 1}, wire.CodeNotYet, 0},
		{wire.Query{Kind: wire.QueryLastEach, Filters: []string{"**"}, MinSeq: 3}, wire.CodeNotYet, 0},
		{wire.Query{Seq: 0}, wire.CodeGone, 1},
	} {
		p.query(uint32(id+1), c.q)
		if e := p.expectError(wire.TError, uint32(id+1), c.code); e.Detail != c.detail || e.Message == "" {
			t.Errorf("%+v: %+v, want detail %d", c.q, e, c.detail)
		}
	}
	f.publish(message{"old", "x"})
	f.fill("a/b", 1000, 20<<10)
	oldest, _ := f.broker.Stream().Bounds()
	p.query(90, wire.Query{Seq: 1})
	if e := p.expectError(wire.TError, 90, wire.CodeGone); e.Detail != oldest || oldest == 1 {
		t.Errorf("gone: %+v, the oldest is %d", e, oldest)
	}
	p.query(91, wire.Query{Kind: wire.QueryLast, Filters: []string{"old"}})
	p.expectError(wire.TError, 91, wire.CodeGone)
}

func TestMalformedQueriesEndTheConnection(t *testing.T) {
	f := start(t)
	for name, bad := range map[string][]byte{
		"no body": wire.AppendEmpty(nil, wire.TQuery, 6),
		"id 0":    wire.AppendQuery(nil, 0, &wire.Query{Seq: 1}),
		"kind":    wire.AppendQuery(nil, 1, &wire.Query{Kind: 9, Filters: []string{"a"}}),
		"answer":  wire.AppendAnswer(nil, 1, &wire.Answer{}),
	} {
		t.Run(name, func(t *testing.T) {
			p := f.connect()
			p.send(bad)
			p.expectError(wire.TError, 0, wire.CodeProtocol)
			p.expectEnd()
		})
	}
}

// TestQueriesWait: a query for what is still to come holds up nothing else, and too many of them are refused.
func TestQueriesWait(t *testing.T) {
	f := start(t, func(s *setup) { s.options.MaxQueries = 2 })
	p := f.connect()
	const long = 30_000
	p.query(1, wire.Query{Seq: 1, WaitMS: long})
	p.query(2, wire.Query{Kind: wire.QueryLast, Filters: []string{"a"}, MinSeq: 1, WaitMS: long})
	p.query(3, wire.Query{Seq: 1, WaitMS: long})
	if e := p.expectError(wire.TError, 3, wire.CodeTooManyQueries); e.Detail != 2 {
		t.Errorf("the limit is told as %d", e.Detail)
	}
	f.publish(message{"a", "x"})
	for range 2 {
		if fr := p.expect(wire.TAnswer); fr.ID != 1 && fr.ID != 2 {
			t.Errorf("answer %d", fr.ID)
		}
	}
	p.query(4, wire.Query{Seq: 9, WaitMS: long})
	p.query(5, wire.Query{Seq: 1})
	p.expectAnswer(5, "1 a x")
	p.nc.Close() // the end of the connection ends the wait: start's clean-up waits for it
}

// TestAnswersFitIntoFrames: a page of many large messages is cut, one large message is not.
func TestAnswersFitIntoFrames(t *testing.T) {
	f := start(t)
	p := f.connect()
	const topics = 6
	var b record.BatchBuilder
	for i := range topics {
		b.Reset(nil, nil)
		name := fmt.Sprintf("big/%d", i)
		p.define(name)
		if err := b.Add(uint32(i), nil, make([]byte, record.MaxPayload-i)); err != nil {
			t.Fatal(err)
		}
		p.publish(uint32(i+1), b.Finish(record.ProducerID{}, 0, 0, false))
		p.expectAck(uint32(i + 1))
	}
	after, pages := uint64(0), 0
	for {
		pages++
		p.query(uint32(100+pages), wire.Query{Kind: wire.QueryLastEach, Filters: []string{"**"}, After: after, Bytes: ^uint32(0), Count: ^uint32(0)})
		a, err := wire.DecodeAnswer(p.expect(wire.TAnswer).Body)
		if err != nil || a.Count != 1 {
			t.Fatalf("page %d: %d messages, %v", pages, a.Count, err)
		}
		if after = a.Next; after == 0 {
			break
		}
	}
	if pages != topics {
		t.Errorf("%d pages", pages)
	}
}
