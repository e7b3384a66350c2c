package http

import (
	nethttp "net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/cantus-bus/cantus/internal/topic"
)

const (
	defaultPage = 100
	// MaxPage is how many rows a page of topics may have.
	MaxPage = 10_000
)

// TopicSorts are the orders that a page of topics may have; the first is the default.
var TopicSorts = []string{"name", "bytes", "messages", "rate"}

// TopicRow is a row of the topic tree.
type TopicRow struct {
	Topic    string `json:"topic"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	LastSeq  uint64 `json:"last_seq"`
	// Rate in messages per second over the last seconds; 0 until it was measured.
	Rate     float64 `json:"rate"`
	Children int     `json:"children"`
}

// TopicPage is a page of rows.
type TopicPage struct {
	Topics []TopicRow `json:"topics"`
	Total  int        `json:"total"`
	// Next is the offset of the next page, absent on the last.
	Next *int `json:"next,omitempty"`
}

func (s *Server) getTopics(w nethttp.ResponseWriter, r *nethttp.Request) {
	o, err := parseList(r.URL.Query())
	if err != nil {
		writeErr(w, err)
		return
	}
	now := s.rates.get()
	if o.Sort == "rate" {
		o.Weight = func(id topic.ID) float64 { return now.of(id, o.Depth > 0) }
	}
	rows, total := s.node.Stream().Table().List(o)
	page := TopicPage{Topics: make([]TopicRow, len(rows)), Total: total}
	for i, v := range rows {
		page.Topics[i] = TopicRow{v.Topic, v.Messages, v.Bytes, v.LastSeq, now.of(v.ID, o.Depth > 0), v.Children}
	}
	if next := o.Offset + len(rows); len(rows) > 0 && next < total {
		page.Next = &next
	}
	writeJSON(w, nethttp.StatusOK, page)
}

func parseList(q url.Values) (o topic.ListOptions, err error) {
	filter := q.Get("filter")
	if filter == "" {
		filter = "**"
	}
	if o.Filter, err = topic.ParseFilter(filter); err != nil {
		return o, problem(nethttp.StatusBadRequest, "bad_filter", "%v", err)
	}
	if o.Sort = q.Get("sort"); o.Sort == "" {
		o.Sort = TopicSorts[0]
	}
	if !slices.Contains(TopicSorts, o.Sort) {
		return o, problem(nethttp.StatusBadRequest, "bad_request", "sort=%q: want %s", o.Sort, strings.Join(TopicSorts, ", "))
	}
	for _, p := range []struct {
		name     string
		to       *int
		min, max int
		value    int
	}{
		{"depth", &o.Depth, 0, topic.MaxSegments, 0},
		{"offset", &o.Offset, 0, 1 << 31, 0},
		{"limit", &o.Limit, 1, MaxPage, defaultPage},
	} {
		*p.to = p.value
		if v := q.Get(p.name); v != "" {
			n, err := strconv.Atoi(v)
			if err != nil || n < p.min || n > p.max {
				return o, problem(nethttp.StatusBadRequest, "bad_request", "%s=%q: want a number from %d to %d", p.name, v, p.min, p.max)
			}
			*p.to = n
		}
	}
	return o, nil
}
