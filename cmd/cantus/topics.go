package main

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/units"
	"github.com/cantus-bus/cantus/transport/http"
)

func (a *app) topicsCmd() *cobra.Command {
	var depth, offset, limit int
	var sort string
	cmd := &cobra.Command{
		Use:   "topics [FILTER]",
		Short: "Show the topic tree with counts, a page at a time",
		Long:  "Show the topic tree with counts, a page at a time. Counts are of everything ever published: retention takes nothing off them.",
		Example: `  cantus topics --depth 1 --sort bytes      # what lies at the top of the tree
  cantus topics 'ansible/lib/**' --limit 50`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(http.TopicSorts, sort) {
				return usagef("--sort %q: want %s", sort, strings.Join(http.TopicSorts, ", "))
			}
			query := url.Values{
				"depth": {strconv.Itoa(depth)}, "sort": {sort}, "offset": {strconv.Itoa(offset)}, "limit": {strconv.Itoa(limit)},
			}
			if len(args) == 1 {
				query.Set("filter", args[0])
			}
			var page http.TopicPage
			if err := a.ask(cmd.Context(), "/v1/topics?"+query.Encode(), &page); err != nil {
				return err
			}
			return a.printTopics(page)
		},
	}
	f := cmd.Flags()
	f.IntVar(&depth, "depth", 0, "0: topics; N: nodes N segments below the filter, with all below them added up")
	f.StringVar(&sort, "sort", "name", strings.Join(http.TopicSorts, ", "))
	f.IntVar(&offset, "offset", 0, "rows to skip")
	f.IntVar(&limit, "limit", 100, "rows to show")
	bound(f, "depth", &depth, 0, topic.MaxSegments)
	bound(f, "offset", &offset, 0, 1<<31)
	bound(f, "limit", &limit, 1, http.MaxPage)
	return cmd
}

func (a *app) printTopics(page http.TopicPage) error {
	if a.JSON {
		return a.Object(page)
	}
	rows := make([][]any, len(page.Topics))
	for i, t := range page.Topics {
		rows[i] = []any{t.Topic, units.Count(int64(t.Messages)), units.Size(int64(t.Bytes)), units.Rate(t.Rate), t.LastSeq, t.Children}
	}
	a.Table([]string{"topic", "messages", "bytes", "rate", "last seq", "below"}, []int{1, 2, 3, 4, 5}, rows)
	if page.Next != nil {
		a.Note("%s", fmt.Sprintf("%d of %d; the next page: --offset %d", len(rows), page.Total, *page.Next))
	}
	return nil
}
