package http

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/vfs"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/tipstore"
)

func window(name string, first, last uint64, sum string) cluster.FileInfo {
	return cluster.FileInfo{Kind: "window", Name: name, Size: 9, SHA256: sum, FirstSeq: first, LastSeq: last}
}

func listOf(files ...cluster.FileInfo) cluster.FileList {
	l := cluster.FileList{First: 1, Files: files}
	if len(files) > 0 {
		l.First, l.Last = files[0].FirstSeq, files[len(files)-1].LastSeq
	}
	return l
}

func TestCompareFiles(t *testing.T) {
	damaged := window("w-2.cnts", 11, 20, "b")
	damaged.Damaged = true
	whole := listOf(window("w-1.cnts", 1, 10, "a"), window("w-2.cnts", 11, 20, "b"))
	for name, test := range map[string]struct {
		other    cluster.FileList
		compared int
		want     string // the one difference; "": none
	}{
		"equal":         {whole, 2, ""},
		"fewer":         {listOf(whole.Files[0]), 1, ""},
		"other names":   {listOf(window("g-1.cnts", 1, 20, "c")), 0, ""},
		"another hash":  {listOf(whole.Files[0], window("w-2.cnts", 11, 20, "x")), 2, "node b: w-2.cnts has 9 bytes with SHA-256 x, but 9 with b on a"},
		"damaged there": {listOf(whole.Files[0], damaged), 2, "node b: w-2.cnts is damaged"},
	} {
		got, compared := compareFiles(map[string]cluster.FileList{"a": whole, "b": test.other})
		if want := slices.DeleteFunc([]string{test.want}, func(s string) bool { return s == "" }); !slices.Equal(got, want) || compared != test.compared {
			t.Errorf("%s: %q, %d compared; want %q, %d", name, got, compared, want, test.compared)
		}
	}
}

func TestBehind(t *testing.T) {
	gen := func(number, first, last uint64) cluster.FileInfo {
		return cluster.FileInfo{Kind: "generation", Name: "g", FirstSeq: first, LastSeq: last}
	}
	want := historyWanted{first: 1, last: 30, generations: []fsm.Generation{{Number: 1, FirstWindow: 1, LastWindow: 2, FirstSeq: 1, LastSeq: 20}}}
	for name, test := range map[string]struct {
		list cluster.FileList
		want string
	}{
		"all there":          {listOf(gen(1, 1, 20), window("w-3", 21, 30, "")), ""},
		"more than sealed":   {listOf(gen(1, 1, 20), window("w-3", 21, 30, ""), window("w-4", 31, 40, "")), ""},
		"in a later one":     {listOf(gen(2, 1, 30)), ""},
		"a window missing":   {listOf(gen(1, 1, 20)), "history has seqs 1 to 20"},
		"nothing":            {listOf(), "history has seqs 1 to 0"},
		"begins late":        {listOf(gen(1, 5, 20), window("w-3", 21, 30, "")), "history has seqs 5 to 30"},
		"not rewritten":      {listOf(window("w-1", 1, 10, ""), window("w-2", 11, 20, ""), window("w-3", 21, 30, "")), "generation 1 (windows 1 to 2)"},
		"rewritten in parts": {listOf(gen(1, 1, 10), gen(2, 11, 20), window("w-3", 21, 30, "")), "generation 1 (windows 1 to 2)"},
	} {
		lists := map[string]cluster.FileList{"b": test.list}
		got := append(want.missing(lists), want.unwritten(lists)...)
		if (test.want == "") != (len(got) == 0) || len(got) > 0 && (!strings.HasPrefix(got[0], "node b: behind: ") || !strings.Contains(got[0], test.want)) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	if none := (&historyWanted{}); len(none.missing(map[string]cluster.FileList{"b": listOf()})) > 0 {
		t.Error("nothing is sealed, and a node without files is behind")
	}
}

// keepingHistory gives a fake node a stream with history.
func keepingHistory(t *testing.T, n *fakeNode) *fakeNode {
	t.Helper()
	stream, err := cluster.NewStream(cluster.StreamOptions{
		Tip: tipstore.Options{SizeBytes: 16 << 20, ChunkBytes: 4 << 20}, MaxTopics: 1000, MaxProducers: 10, History: &cluster.HistoryOptions{Dir: "h", FS: vfs.NewMem()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stream.Close() })
	n.stream = stream
	return n
}

// TestVerifyTellsWhoIsBehind: waiting for a node in vain is told as such, not as an error of asking it.
func TestVerifyTellsWhoIsBehind(t *testing.T) {
	a, b := keepingHistory(t, newFakeNode(t, "a")), keepingHistory(t, newFakeNode(t, "b"))
	as, _ := serve(t, a, func(o *Options) { o.RequestTimeout = 250 * time.Millisecond })
	_, bts := serve(t, b, nil)
	a.nodes = []wire.NodeInfo{{ID: "a"}, {ID: "b", HTTPAddr: strings.TrimPrefix(bts.URL, "http://")}}
	a.files, b.files = []cluster.FileInfo{window("w-1.cnts", 1, 10, "a")}, []cluster.FileInfo{window("w-1.cnts", 1, 10, "a")}
	plan := fsm.Generation{Number: 1, FirstWindow: 1, LastWindow: 1, FirstSeq: 1, LastSeq: 10}
	v := Verification{Nodes: []NodeDigest{{ID: "a", KeepsHistory: true}, {ID: "b", KeepsHistory: true}}}
	as.verifyFiles(t.Context(), &v, historyWanted{first: 1, last: 10, generations: []fsm.Generation{plan}})
	if !v.Equal || len(v.Behind) != 2 || v.Files != 1 || len(v.Differences) > 0 {
		t.Errorf("windows to be rewritten: %+v", v)
	}
	as.verifyFiles(t.Context(), &v, historyWanted{first: 1, last: 20})
	if v.Equal || len(v.Differences) != 2 || !strings.Contains(v.Differences[1], "node b: behind: ") {
		t.Errorf("windows missing: %+v", v)
	}
}

// TestVerifyComparesFiles: files of nodes that keep history are compared, also when one is late with them.
func TestVerifyComparesFiles(t *testing.T) {
	a, b := keepingHistory(t, newFakeNode(t, "a")), keepingHistory(t, newFakeNode(t, "b"))
	_, ats := serve(t, a, func(o *Options) { o.RequestTimeout = 300 * time.Millisecond })
	_, bts := serve(t, b, nil)
	a.nodes = []wire.NodeInfo{{ID: "a"}, {ID: "b", HTTPAddr: strings.TrimPrefix(bts.URL, "http://")}}
	a.files = []cluster.FileInfo{window("w-1.cnts", 1, 10, "a")}
	for _, test := range []struct {
		sum    string
		equal  bool
		number uint64
	}{{"a", true, 7}, {"b", false, 7}} {
		b.files = []cluster.FileInfo{window("w-1.cnts", 1, 10, test.sum)}
		b.checkpoint(test.number)
		var v Verification
		callJSON(t, "GET", ats.URL+"/v1/verify", "", 200, &v)
		if v.Equal != test.equal || v.Files != 1 || len(v.Nodes) != 2 || !v.Nodes[0].KeepsHistory || !v.Nodes[1].KeepsHistory {
			t.Errorf("sum %s: %+v", test.sum, v)
		}
	}
}
