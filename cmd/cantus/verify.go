package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/transport/http"
)

// verifyTime is how long comparing may take unless --timeout says something: digests are computed, files waited for.
const verifyTime = 30 * time.Second

func (a *app) verifyCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Compare the digests and history files of all replicas at one place of the stream; exit code 1 if they differ",
		Long: `Compare the digests of all replicas' state at one entry of the log, and by SHA-256 every file of history that more than one of them
has. Damaged files count as differences, and so do nodes that have not written in time what is sealed. Windows that a node has still to
rewrite into stores are told of.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var v http.Verification
			if err := a.askFor(cmd.Context(), a.patience(cmd, verifyTime), "/v1/verify", &v); err != nil {
				return err
			}
			if err := a.printVerification(v); err != nil {
				return err
			}
			if !v.Equal {
				return errQuiet
			}
			return nil
		},
	}
}

func (a *app) printVerification(v http.Verification) error {
	if a.JSON {
		return a.Object(v)
	}
	a.Table([]string{"part", "digest", "nodes"}, nil, digestRows(v.Nodes))
	for _, b := range v.Behind {
		a.Note("not compared: %s", b)
	}
	a.Printf("")
	a.printVerdict(v)
	return nil
}

func (a *app) printVerdict(v http.Verification) {
	silent := 0
	for _, n := range v.Nodes {
		if n.Error != "" {
			silent++
		}
	}
	switch {
	case v.Equal && len(v.Nodes) == 1:
		a.Printf("there is one replica, at seq %d: nothing to compare it with", v.Seq)
	case v.Equal:
		a.Printf("%d replicas are equal at seq %d, and so are the %d files of history that they share", len(v.Nodes), v.Seq, v.Files)
	case silent == len(v.Differences): // each that is silent is one
		a.Printf("%d of %d replicas were compared and are equal at seq %d", len(v.Nodes)-silent, len(v.Nodes), v.Seq)
		a.List("NOT COMPARED", v.Differences)
	default:
		a.Printf("replicas DIFFER at seq %d", v.Seq)
		a.List("differences", v.Differences)
	}
}

// digestRows are the parts, each with every digest that a node has of it, and the nodes that have it.
func digestRows(nodes []http.NodeDigest) (rows [][]any) {
	holders := map[[2]string][]string{} // of a part's digest
	answered := 0
	for _, n := range nodes {
		if n.Error == "" {
			answered++
		}
		for part, digest := range n.Parts {
			holders[[2]string{part, digest}] = append(holders[[2]string{part, digest}], n.ID)
		}
	}
	keys := slices.SortedFunc(maps.Keys(holders), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, key := range keys {
		who := strings.Join(holders[key], " ")
		if len(holders[key]) == answered {
			who = fmt.Sprintf("all %d", answered)
		}
		rows = append(rows, []any{key[0], key[1], who})
	}
	return rows
}
