package main

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/internal/units"
	"github.com/cantus-bus/cantus/transport/http"
)

func (a *app) topicsCmd() *cobra.Command {
	var depth, offset, limit int
	var sort string
	cmd := &cobra.Command{
		Use:   "topics [FILTER]",
		Short: "Show the topic tree with counts, a page at a time",
		Example: `  cantus topics --depth 1 --sort bytes      # what lies at the top of the tree
  cantus topics 'ansible/lib/**' --limit 50`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
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
	f.StringVar(&sort, "sort", "name", "name, bytes, messages or rate")
	f.IntVar(&offset, "offset", 0, "rows to skip")
	f.IntVar(&limit, "limit", 100, "rows to show, 1 to 10000")
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
