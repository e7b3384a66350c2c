package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	nethttp "net/http"
	"path/filepath"
	"testing"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/control"
	"github.com/cantus-bus/cantus/transport/http"
)

// controlOf is the control plane of one node.
func (w *world) controlOf(node string) *control.Client {
	w.Helper()
	c, err := control.New([]string{w.ports[node][1]})
	w.must(err)
	w.Cleanup(c.Close)
	return c
}

// TestBackupBecomesACluster: a follower is backed up while writers go on and history is rewritten. What is restored from it, with two
// nodes that were empty, is a cluster of its own that holds the stream up to the backup's seq, on every node, and goes on from there.
func TestBackupBecomesACluster(t *testing.T) {
	t.Parallel()
	w := start(t, 3, keepHistory)
	c := w.connect()
	x := w.writer(c, "w", client.ProducerOptions{})
	for i := range 3000 {
		x.publish(fmt.Sprintf("app/%d/t%d", i%5, i%31), make([]byte, 1<<10))
	}
	x.flush()
	source := w.controlOf(w.cluster.Followers()[0].NodeID())
	dir, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	type made struct {
		cluster.BackupResult
		err error
	}
	done := make(chan made, 1)
	go func() {
		r, err := cluster.Backup(w.ctx, cluster.BackupOptions{Dir: dir, Source: cluster.NewBackupSource(source)})
		done <- made{r, err}
	}()
	var backup made
	for running := true; running; x.flush() {
		select {
		case backup = <-done:
			running = false
		default:
			for i := range 50 {
				x.publish(fmt.Sprintf("app/%d/late%d", i%5, i%7), make([]byte, 1<<10))
			}
		}
	}
	w.must(backup.err)
	x.close()
	stream := w.audit()
	if backup.Seq < 3000 || backup.Seq > uint64(len(stream)) || len(backup.History) == 0 {
		t.Fatalf("backup up to seq %d in %d files, of %d messages", backup.Seq, len(backup.History), len(stream))
	}
	w.cluster.Stop()
	restored, err := cluster.RestoreBackup(w.ctx, dir, data, nil)
	w.must(err)
	again := start(t, 1, func(w *world) {
		keepHistory(w)
		keep := w.change
		w.change = func(o *cluster.Options) {
			if keep(o); o.Name == "node0" {
				o.DataDir = data
			}
		}
	})
	for range 2 {
		again.addEmpty()
	}
	again.wantRestored(restored, stream[:backup.Seq])
}

// addEmpty adds a node without data.
func (w *world) addEmpty() {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.cluster.Add()
	w.tellAddrs()
	w.addrs = append(w.addrs, w.ports[m.NodeID()][0])
}

// wantRestored: every node of the cluster holds the stream of a backup, and they take messages behind it.
func (w *world) wantRestored(r cluster.RestoreResult, want []stored) {
	w.Helper()
	w.eventually("three voters", func() bool {
		w.tellAddrs() // nodes that have fetched a snapshot are opened again, and have told only one address
		leader, voters := w.cluster.Running()[0], 0
		for _, n := range leader.Topology().Nodes {
			if n.Voter {
				voters++
			}
		}
		return voters == 3
	})
	c := w.connect()
	for i, m := range w.cluster.Running() {
		if m.ClusterID() != r.ClusterID {
			w.Errorf("node %d is of cluster %s, want %s", i, m.ClusterID(), r.ClusterID)
		}
		w.wantSame(i, want, w.readWhole(c, w.ports[m.NodeID()][0], r.Seq))
	}
	p, err := c.Producer(w.ctx, client.ProducerOptions{})
	w.must(err)
	ack, err := p.PublishSync(w.ctx, "after/restore", []byte("x"))
	w.must(err)
	if ack.Seq != r.Seq+1 {
		w.Errorf("the first message after the restore has seq %d, want %d", ack.Seq, r.Seq+1)
	}
	w.wantVerified()
}

// wantVerified asks the control plane to compare all nodes, files included.
func (w *world) wantVerified() http.Verification {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	var v http.Verification
	defer func() {
		if w.Failed() {
			w.Logf("the last comparison: %+v", v)
		}
	}()
	w.eventually("equal replicas", func() bool {
		w.tellAddrs()
		req, err := nethttp.NewRequestWithContext(ctx, "GET", "http://"+w.ports[w.cluster.Leader().NodeID()][1]+"/v1/verify", nil)
		w.must(err)
		resp, err := nethttp.DefaultClient.Do(req)
		if err != nil {
			return false // leadership moved
		}
		defer resp.Body.Close()
		v = http.Verification{}
		return json.NewDecoder(resp.Body).Decode(&v) == nil && v.Equal && len(v.Nodes) == 3 && v.Files > 0
	})
	return v
}
