package subtree

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/cantus-bus/cantus/internal/dataset"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
	"github.com/cantus-bus/cantus/subtree/plan"
)

const datasetFile = "../../shared/data/gitstream.tsv.gz"

// datasetStream turns rows into records.
type datasetStream struct {
	table *topic.Table
	r     *dataset.Reader
	seq   uint64
}

// window returns records of up to 64 MiB; nil at the end.
func (s *datasetStream) window(b *testing.B) (runs [][]byte) {
	size := 0
	for size < 64<<20 {
		row, err := s.r.Next()
		if errors.Is(err, io.EOF) {
			return runs
		}
		if err != nil {
			b.Fatal(err)
		}
		id, _, err := s.table.Intern(row.Topic)
		if err != nil {
			b.Fatal(err)
		}
		payload := dataset.Text.AppendPayload(nil, row.Number, row.Bytes)
		rec, err := record.AppendRecord(nil, uint32(id), nil, payload)
		if err != nil {
			b.Fatal(err)
		}
		s.seq++
		record.Stamp(rec, uint32(id), s.seq, row.Seconds*1e9)
		s.table.Add(id, 1, uint64(len(payload)), s.seq)
		runs = append(runs, rec)
		size += len(rec)
	}
	return runs
}

// planSplitter makes a plan a Splitter.
type planSplitter struct{ *plan.Plan }

func (p planSplitter) Stores() int { return p.Len() }

// BenchmarkDataset puts a real stream into one generation by the shipped planner, reads every topic once, and tells what was
// read for what was wanted.
func BenchmarkDataset(b *testing.B) {
	in, err := dataset.Open(datasetFile)
	if err != nil {
		b.Skip("the dataset is not there:", err)
	}
	s := &datasetStream{table: topic.NewTable(0), r: in}
	st, err := Open(vfs.OS(), filepath.Join(b.TempDir(), "history"), s.table, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	windows := uint64(0)
	for runs := s.window(b); runs != nil; runs = s.window(b) {
		windows++
		w := Window{Number: windows, FirstSeq: seqOf(runs[0]), LastSeq: s.seq}
		if err := st.Seal(w, feed(runs)); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("windows", func(b *testing.B) { benchTopics(b, st) })
	plans, err := plan.Compute(s.table, nil, plan.Options{})
	if err != nil {
		b.Fatal(err)
	}
	g := Generation{Number: 1, FirstWindow: 1, LastWindow: windows}
	for _, p := range plans.Plans {
		node, _ := s.table.Lookup(p.Partition())
		g.Plans = append(g.Plans, PartitionPlan{node, planSplitter{p}})
	}
	if err := st.Rewrite(context.Background(), g, nil); err != nil {
		b.Fatal(err)
	}
	b.Run("stores", func(b *testing.B) { benchTopics(b, st) })
	b.Run("everything", func(b *testing.B) { benchScan(b, st, "**", false) })
}

func benchTopics(b *testing.B, st *Store) {
	for b.Loop() {
		var x ReadStats
		for id := range topic.ID(st.table.Nodes()) {
			if !st.table.IsTopic(id) {
				continue
			}
			one := scan(b, st, st.table.Name(id))
			x.Bytes += one.Bytes
			x.StoredBytes += one.StoredBytes
			x.DecodedBytes += one.DecodedBytes
		}
		b.ReportMetric(float64(x.DecodedBytes)/float64(x.Bytes), "decoded/wanted")
		b.ReportMetric(float64(x.StoredBytes)/float64(x.Bytes), "disk/wanted")
		b.ReportMetric(float64(x.Bytes)/1e6, "wanted_MB")
	}
}
