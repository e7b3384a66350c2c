package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/dataset"
	"github.com/cantus-bus/cantus/internal/load"
	"github.com/cantus-bus/cantus/tipstore"
	"github.com/cantus-bus/cantus/transport/http"
)

// wholeDataset is the recorded stream that long runs replay: without it they are skipped, since a sample in its place would pass for it. Others
// replay every third message of the built-in sample.
const wholeDataset = "../../../shared/data/gitstream.tsv.gz"

// replayed is a row of a dataset as it must stand in the stream.
type replayed struct {
	stored
	at time.Time // when the stream took it; zero: not known yet
}

// replay is a world into which a dataset is replayed, in parts that are datasets of their own.
type replay struct {
	*world
	parts [3]strings.Builder
	rows  []replayed // of all parts: row i has seq i+1
	sizes int64      // of all payloads
	sets  map[string][]string
}

// TestReplayIsTheFile replays a recorded stream by the code of the command line into three nodes whose ring holds a small part of it,
// so that the rest is history, plans twice in between, and reads every kind of filter from every node from all kinds of places. All
// that comes is held against the file. Nodes are equal in the end, and so are the files of their histories, byte for byte.
func TestReplayIsTheFile(t *testing.T) {
	t.Parallel()
	x := &replay{}
	if _, err := os.Stat(wholeDataset); long() && err != nil {
		t.Skipf("CANTUS_E2E_LONG asks for the whole recorded stream, and it is not there (%v): put it there, or unset CANTUS_E2E_LONG to replay the sample", err)
	}
	x.world = start(t, 3, x.configure)
	x.load()
	began, n := time.Now(), len(x.rows)
	x.publish(0)
	x.plan()
	x.publish(1)
	x.plan()
	var beside sync.WaitGroup
	beside.Go(func() { x.publish(2) })
	x.readAll("beside publishing", n*3/4, map[string]client.Start{"first": client.First()})
	beside.Wait()
	t.Logf("%d messages on %d topics, %d MB: replayed, planned twice and read beside in %v", n, len(x.count()), x.sizes/1e6, time.Since(began).Round(time.Millisecond))
	x.wantMostlyHistory()
	x.learnTimes()
	from := x.rows[n/2].at
	began = time.Now()
	x.readAll("at rest", n, map[string]client.Start{
		"first": client.First(), "seq": client.Seq(uint64(n / 3)), "time": client.Time(from), "ago": client.Ago(x.rows[n-1].at.Sub(from)),
	})
	t.Logf("every filter from every place on every node in %v", time.Since(began).Round(time.Millisecond))
	x.wantHistoryRead()
	x.wantEqualNodes()
	x.wantEqualFiles()
}

func (x *replay) configure(w *world) {
	keepHistory(w)
	tip, window := tipstore.Options{SizeBytes: 2 << 20, ChunkBytes: 512 << 10}, uint64(512<<10)
	if long() {
		tip, window = tipstore.Options{SizeBytes: 64 << 20, ChunkBytes: 4 << 20}, 8<<20
	}
	w.tip = tip
	keep := w.change
	w.change = func(o *cluster.Options) {
		keep(o)
		o.History.WindowBytes, o.History.PlanWindows = window, -1 // the test's plans are the only ones
	}
}

// load reads the dataset and works out what must be in the stream. No name in the sample goes beyond ASCII, so it gets some that do.
func (x *replay) load() {
	x.Helper()
	open := dataset.OpenSample
	if long() {
		open = func() (*dataset.Reader, error) { return dataset.Open(wholeDataset) }
	}
	in, err := open()
	x.must(err)
	list, err := dataset.ReadAll(in)
	x.must(err)
	x.must(in.Close())
	if !long() {
		third := list[:0]
		for i := 0; i < len(list); i += 3 {
			third = append(third, list[i])
		}
		list = third
	}
	for i := range 40 {
		at := list[0].Seconds
		list = append([]dataset.Row{{Seconds: at, Topic: fmt.Appendf(nil, "etcd/ドキュメント/naïve %d.md", i%7), Bytes: i * 100}}, list...)
	}
	n := len(list)
	for i, end := range []int{n / 2, n * 3 / 4, n} {
		x.loadPart(&x.parts[i], list[len(x.rows):end])
	}
	x.sets = x.filterSets()
	for kind, filters := range x.sets {
		some := slices.ContainsFunc(x.rows, func(r replayed) bool { return dataset.Matches(filters, r.topic) })
		if some == strings.HasPrefix(kind, "never") {
			x.Fatalf("filters %q, %q: some message matches: %v", kind, filters, some)
		}
	}
}

// loadPart writes a part as a dataset. Payloads depend on the number of a row in it.
func (x *replay) loadPart(to *strings.Builder, list []dataset.Row) {
	fmt.Fprintf(to, "unix_seconds\ttopic\tbytes\n")
	var payload []byte
	for i, r := range list {
		fmt.Fprintf(to, "%d\t%s\t%d\n", r.Seconds, r.Topic, r.Bytes)
		payload = dataset.Text.AppendPayload(payload[:0], uint64(i+1), r.Bytes)
		x.rows = append(x.rows, replayed{stored: stored{seq: uint64(len(x.rows) + 1), topic: string(r.Topic), hash: hashOf(payload)}})
		x.sizes += int64(r.Bytes)
	}
}

// count is how many messages each topic has.
func (x *replay) count() map[string]int {
	of := map[string]int{}
	for _, r := range x.rows {
		of[r.topic]++
	}
	return of
}

// filterSets are one of every kind. Topics are taken from the dataset, so that they exist.
func (x *replay) filterSets() map[string][]string {
	var rare, frequent, deep, shallow, spaced string
	var many []string
	count := x.count()
	for i, r := range x.rows {
		depth := strings.Count(r.topic, "/")
		switch {
		case count[r.topic] == 1 && rare == "":
			rare = r.topic
		case count[r.topic] > count[frequent]:
			frequent = r.topic
		case depth > strings.Count(deep, "/"):
			deep = r.topic
		case depth == 1:
			shallow = r.topic
		case strings.Contains(r.topic, " "):
			spaced = r.topic
		case i%41 == 0 && len(many) < 300:
			many = append(many, r.topic)
		}
	}
	return map[string][]string{
		"everything":               {"**"},
		"repository":               {"etcd/**"},
		"partition":                {"ansible/lib/**"},
		"subtree":                  {"ansible/lib/ansible/modules/network/**"},
		"rare topic":               {rare},
		"frequent topic":           {frequent},
		"shallow topic":            {shallow},
		"deep topic":               {deep},
		"above a deep topic":       {deep[:strings.LastIndexByte(deep, '/')] + "/**"},
		"topic and below":          {frequent + "/**"},
		"spaces":                   {spaced},
		"beyond ASCII":             {"etcd/ドキュメント/**"},
		"subtrees in each other":   {"ansible/lib/ansible/**", "ansible/lib/**", "ansible/lib/ansible/modules/**"},
		"topics in subtrees":       {frequent, "ansible/test/**", "rqlite/**", shallow, rare},
		"everything and more":      {"prometheus/**", "**", deep},
		"many topics":              many,
		"never: nothing like it":   {"nothing/here/**", "etcd/no/such file.go"},
		"never: above topics only": {"ansible", "ansible/lib"},
	}
}

// publish replays a part, by one producer, so in the file's order. Any goroutine.
func (x *replay) publish(part int) {
	rows, err := dataset.NewReader("part", strings.NewReader(x.parts[part].String()))
	if err != nil {
		x.Errorf("part %d: %v", part, err)
		return
	}
	r, err := load.Replay(x.ctx, load.ReplayOptions{
		Connect: client.Options{Servers: x.addrs, ConnectWait: patience, RetryTimeout: patience}, Rows: rows, Producers: 1, Payload: dataset.Text,
	})
	if err != nil || r.Refused > 0 || r.Acked != r.Published {
		x.Errorf("part %d: %+v: %v", part, r, err)
	}
}

// plan has the leader split all that is sealed. Leadership may move meanwhile.
func (x *replay) plan() {
	x.Helper()
	next := x.cluster.Leader().Stream().Machine().NextGeneration()
	x.eventually("a plan", func() bool {
		ctx, cancel := context.WithTimeout(x.ctx, patience)
		defer cancel()
		leader := x.cluster.Leader()
		_, err := leader.PlanNow(ctx)
		return err == nil && leader.Stream().Machine().NextGeneration() > next
	})
}

// readAll reads every set of filters from all places on all nodes, each node's readers beside the others'. The stream has known rows at
// least.
func (x *replay) readAll(when string, known int, places map[string]client.Start) {
	var readers sync.WaitGroup
	for i, m := range x.cluster.Running() {
		addr, c := x.ports[m.NodeID()][0], x.connect()
		readers.Go(func() {
			for kind, filters := range x.sets {
				for place, from := range places {
					name := fmt.Sprintf("%s, node %d, %s from %s", when, i, kind, place)
					o := client.SubscribeOptions{Filters: filters, From: from, Node: addr, MinSeq: uint64(known), MinSeqWait: patience}
					x.wantRead(name, x.read(c, name, o), filters, place, known)
				}
			}
		})
	}
	readers.Wait()
}

// read reads until it has caught up.
func (x *replay) read(c *client.Client, name string, o client.SubscribeOptions) (got []replayed) {
	s, err := c.Subscribe(x.ctx, o)
	if err != nil {
		x.Errorf("%s: %v", name, err)
		return nil
	}
	defer s.Close()
	for m, err := range s.ToCaughtUp(x.ctx) {
		if err != nil {
			x.Errorf("%s: %v", name, err)
			break
		}
		got = append(got, replayed{asStored(&m), m.Time})
	}
	if s.Stats().Resumed > 0 {
		x.Errorf("%s: went on at another node", name)
	}
	return got
}

// wantRead holds what was read against the file. Beside publishing it may end anywhere behind the known rows.
func (x *replay) wantRead(name string, got []replayed, filters []string, place string, known int) {
	least, next := 0, 0
	for i, r := range x.rows {
		if !dataset.Matches(filters, r.topic) || !x.within(place, i) {
			continue
		}
		if i < known {
			least++
		}
		if next == len(got) {
			continue
		}
		if g := got[next]; g.stored != r.stored || !r.at.IsZero() && !g.at.Equal(r.at) {
			x.Errorf("%s: message %d is %+v, in the file %+v", name, next, g, r)
			return
		}
		next++
	}
	if next < least || next < len(got) {
		x.Errorf("%s: %d messages were read, %d of them in the file, which has %d and more", name, len(got), next, least)
	}
}

// within says whether a reader that begins at a place gets row i.
func (x *replay) within(place string, i int) bool {
	switch n := len(x.rows); place {
	case "seq":
		return i+1 >= n/3
	case "time", "ago":
		return !x.rows[i].at.Before(x.rows[n/2].at)
	}
	return true
}

// learnTimes reads everything once and notes when the stream took each row. From then on all readers must be told the same.
func (x *replay) learnTimes() {
	x.Helper()
	n := uint64(len(x.rows))
	got := x.read(x.connect(), "times", client.SubscribeOptions{Filters: []string{"**"}, MinSeq: n, MinSeqWait: patience, Node: x.addrs[0]})
	x.wantRead("times", got, []string{"**"}, "first", len(x.rows))
	for i, r := range got[:min(len(got), len(x.rows))] {
		if i > 0 && r.at.Before(got[i-1].at) {
			x.Fatalf("message %d is older than the one before", r.seq)
		}
		x.rows[i].at = r.at
	}
	if x.Failed() {
		x.FailNow()
	}
}

// wantMostlyHistory waits until all nodes have written what is sealed and planned, and fails unless that is most of the stream.
func (x *replay) wantMostlyHistory() {
	x.Helper()
	for i, m := range x.cluster.Running() {
		x.eventually("history to be written", func() bool {
			st := m.Stream().HistoryStatus()
			return st.PendingWindows == 0 && st.PendingGenerations == 0
		})
		tip, _ := m.Stream().Tip().Bounds()
		st := m.Stream().HistoryStatus()
		if half := uint64(len(x.rows) / 2); tip < half || st.LastSeq < half || st.Generations < 2 {
			x.Fatalf("node %d: the tip begins with message %d of %d; history: %+v", i, tip, len(x.rows), st)
		}
		if i == 0 {
			x.Logf("the tip begins with message %d, history: %+v", tip, *st)
		}
	}
}

// wantEqualNodes asks each node what verify asks. One that had no leader, or no answer of another in time, is asked again.
func (x *replay) wantEqualNodes() {
	x.Helper()
	for i, m := range x.cluster.Running() {
		var v http.Verification
		var err error
		ctl, end := x.controlOf(m.NodeID()), time.Now().Add(patience)
		for {
			v = http.Verification{}
			if err = ctl.Get(x.ctx, "/v1/verify", &v); err == nil && v.Equal || time.Now().After(end) {
				break
			}
		}
		if err != nil || !v.Equal || len(v.Nodes) != 3 || len(v.Differences)+len(v.Behind) > 0 || v.Seq != uint64(len(x.rows)) || v.Files != len(m.Stream().HistoryFiles()) {
			x.Errorf("node %d says %+v, %v", i, v, err)
		}
	}
}

// wantEqualFiles hashes what lies in the nodes' folders.
func (x *replay) wantEqualFiles() {
	x.Helper()
	var first map[string]string
	for i, m := range x.cluster.Running() {
		sums := map[string]string{}
		var names []string
		x.eventually("files that left history to be removed", func() bool {
			var err error
			names, err = filepath.Glob(filepath.Join(m.Dir, "history", "*.cnts"))
			x.must(err)
			return len(names) == len(m.Stream().HistoryFiles())
		})
		for _, name := range names {
			b, err := os.ReadFile(name)
			x.must(err)
			sum := sha256.Sum256(b)
			sums[filepath.Base(name)] = hex.EncodeToString(sum[:])
		}
		for _, f := range m.Stream().HistoryFiles() {
			if sum := hex.EncodeToString(f.SHA256[:]); sums[f.Name()] != sum {
				x.Errorf("node %d: file %s has hash %s, the manifest says %s", i, f.Name(), sums[f.Name()], sum)
			}
		}
		if i == 0 {
			first = sums
		} else if !maps.Equal(sums, first) {
			x.Errorf("node %d has the files %v, node 0 %v", i, sums, first)
		}
	}
	if len(first) == 0 {
		x.Error("there are no files: the test shows nothing")
	}
}
