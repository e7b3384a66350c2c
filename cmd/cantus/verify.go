package main

import (
	"slices"
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
	var rows [][]any
	for _, n := range v.Nodes {
		if n.Error != "" {
			rows = append(rows, []any{n.ID, "", n.Error})
		}
		parts := make([]string, 0, len(n.Parts))
		for part := range n.Parts {
			parts = append(parts, part)
		}
		slices.Sort(parts)
		for _, part := range parts {
			rows = append(rows, []any{n.ID, part, n.Parts[part]})
		}
	}
	a.Table([]string{"node", "part", "digest"}, nil, rows)
	for _, b := range v.Behind {
		a.Note("not compared: %s", b)
	}
	if v.Equal {
		a.Printf("\n%d replicas are equal at seq %d, and so are the %d files of history that they share", len(v.Nodes), v.Seq, v.Files)
		return nil
	}
	a.Printf("\nreplicas DIFFER at seq %d:", v.Seq)
	for _, d := range v.Differences {
		a.Printf("  %s", d)
	}
	return nil
}
