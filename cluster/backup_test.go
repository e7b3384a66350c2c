package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/subtree"
	"github.com/cantus-bus/cantus/tipstore"
)

// streamSource is a stream without a node as the source of backups.
type streamSource struct {
	t       *testing.T
	f       *feeder
	blob    []byte
	state   []byte
	cut     int64  // a file breaks off after so many bytes; 0: none does
	flip    bool   // one bit of what is sent is wrong
	between func() // runs once, after the history was listed
	opened  int
	skipped int64 // bytes that were not sent again
}

func (s *streamSource) Snapshot(ctx context.Context) (string, error) {
	c := s.f.s.capture()
	s.f.settled(s.t)
	var b bytes.Buffer
	if err := c.writeTo(ctx, &b); err != nil {
		return "", err
	}
	s.state = b.Bytes()
	w, _ := c.state.Sealed()
	m := snapManifest{
		index: c.state.Index(), term: 7, configIndex: 1, cluster: "c1", seq: c.state.Seq(), firstSeq: c.state.First(),
		window: w.Number, windowSeq: w.LastSeq, time: 1, stateSize: int64(len(s.state)), stateSum: sha256.Sum256(s.state),
		config: raft.Configuration{Servers: []raft.Server{{ID: "old", Address: "old:1"}}},
	}
	s.blob = m.encode()
	return m.id(), nil
}

func (s *streamSource) List(context.Context, string) ([]byte, []subtree.Meta, error) {
	list := s.f.s.HistoryFiles()
	if s.between != nil {
		between := s.between
		s.between = nil
		between()
	}
	return s.blob, list, nil
}

func (s *streamSource) Open(_ context.Context, sum [sha256.Size]byte, offset int64) (io.ReadCloser, error) {
	s.opened++
	s.skipped += offset
	var content []byte
	if sum == sha256.Sum256(s.state) {
		content = s.state
	} else {
		held, err := s.f.s.history.store.OpenSum(sum)
		if err != nil {
			return nil, err
		}
		defer held.Close()
		if content, err = io.ReadAll(held); err != nil {
			return nil, err
		}
	}
	content = bytes.Clone(content[offset:])
	if s.cut > 0 && s.cut < int64(len(content)) {
		content = content[:s.cut]
	}
	if s.flip {
		content[len(content)/2] ^= 1
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

// backupFeeder is a stream with windows, a generation and a tail.
func backupFeeder(t *testing.T) *feeder {
	t.Helper()
	f := historyFeeder(t, vfs.NewMem())
	t.Cleanup(func() { f.close(t) })
	if err := f.windows(4 << 10); err != nil {
		t.Fatal(err)
	}
	f.fillTopics(t, 0, 300)
	f.settled(t)
	return f
}

// fillTopics publishes messages from to to-1, of which none is like another.
func (f *feeder) fillTopics(t *testing.T, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		payload := []byte(fmt.Sprintf("message %d %x", i, sha256.Sum256([]byte{byte(i), byte(i >> 8)})))
		if err := f.publish(int64(1000+i), payload, fmt.Sprintf("p/%d/t%d", i%3, i%7)); err != nil {
			t.Fatal(err)
		}
	}
}

func backUp(t *testing.T, s *streamSource, dir string) (BackupResult, error) {
	t.Helper()
	return Backup(t.Context(), BackupOptions{Dir: dir, Source: s})
}

func mustBackUp(t *testing.T, s *streamSource, dir string) BackupResult {
	t.Helper()
	r, err := backUp(t, s, dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestBackupHoldsEverything(t *testing.T) {
	f, dir := backupFeeder(t), filepath.Join(t.TempDir(), "b")
	s := &streamSource{t: t, f: f}
	r := mustBackUp(t, s, dir)
	if r.Seq != 300 || r.FirstSeq != 1 || r.ClusterID != "c1" || len(r.History) < 3 || r.FetchedBytes != r.Bytes || r.Rounds != 1 {
		t.Errorf("%+v", r)
	}
	var done, total int64
	info, err := CheckBackup(t.Context(), dir, func(d, all int64) { done, total = d, all })
	if err != nil || info.Seq != 300 || done != total || total != info.Bytes {
		t.Errorf("check: %+v, %v; %d of %d bytes read", info, err, done, total)
	}
}

// TestBackupGoesOn: a connection that breaks again and again costs nothing twice, and no half backup counts as one.
func TestBackupGoesOn(t *testing.T) {
	f, dir := backupFeeder(t), t.TempDir()
	s := &streamSource{t: t, f: f, cut: 700}
	var r BackupResult
	fetched, tries := int64(0), 0
	for err := errors.New("not tried"); err != nil; tries++ {
		if tries > 0 {
			if _, checked := CheckBackup(t.Context(), dir, nil); !errors.Is(checked, ErrBackup) {
				t.Fatalf("half a backup: %v", checked)
			}
		}
		r, err = backUp(t, s, dir)
		fetched += r.FetchedBytes
		if tries > 1000 {
			t.Fatal(err)
		}
	}
	manifests := int64(tries-1) * r.Manifest.Size // fetched at each attempt
	if tries < 5 || s.skipped == 0 || fetched-manifests != r.Bytes {
		t.Errorf("%d attempts fetched %d bytes of %d, %d were there", tries, fetched, r.Bytes, s.skipped)
	}
	if _, err := CheckBackup(t.Context(), dir, nil); err != nil {
		t.Error(err)
	}
}

// TestBackupAgain fetches only what is new, and leaves nothing old behind.
func TestBackupAgain(t *testing.T) {
	f, dir := backupFeeder(t), t.TempDir()
	s := &streamSource{t: t, f: f}
	first := mustBackUp(t, s, dir)
	f.fillTopics(t, 300, 400)
	f.settled(t)
	second := mustBackUp(t, s, dir)
	if second.Seq != 400 || second.FetchedBytes >= second.Bytes/2 || len(second.History) <= len(first.History) {
		t.Errorf("first %+v, second %+v", first, second)
	}
	names, err := os.ReadDir(filepath.Join(dir, backupFiles))
	if err != nil || len(names) != len(second.History)+2 {
		t.Errorf("%d files for %d of history, %v", len(names), len(second.History), err)
	}
	if info, err := CheckBackup(t.Context(), dir, nil); err != nil || info.Seq != 400 {
		t.Errorf("%+v, %v", info, err)
	}
}

// TestBackupWhileHistoryIsRewritten: what goes away under a backup makes it begin again, not fail or mix two states.
func TestBackupWhileHistoryIsRewritten(t *testing.T) {
	f, dir := backupFeeder(t), t.TempDir()
	s := &streamSource{t: t, f: f}
	s.between = func() {
		w := f.s.machine.Windows()
		if err := f.planRange(1, w[len(w)-1].Number); err != nil {
			t.Fatal(err)
		}
		f.settled(t)
	}
	r := mustBackUp(t, s, dir)
	if r.Rounds != 2 || len(r.History) != 1 {
		t.Errorf("%d rounds, %d files", r.Rounds, len(r.History))
	}
	if _, err := CheckBackup(t.Context(), dir, nil); err != nil {
		t.Error(err)
	}
}

// TestBackupBehindItsHistory: files that reach beyond the snapshot are left out, and one that only reaches beyond makes it begin again.
func TestBackupBehindItsHistory(t *testing.T) {
	f := backupFeeder(t)
	s := &streamSource{t: t, f: f}
	if _, err := s.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.fillTopics(t, 300, 400)
	f.settled(t)
	_, list, _ := s.List(t.Context(), "")
	info, err := describeBackup(s.blob, list)
	if err != nil || len(info.History) >= len(list) || info.Seq != 300 {
		t.Errorf("%d files of %d, %v", len(info.History), len(list), err)
	}
	if err := f.planRange(1, uint64(len(list))); err != nil {
		t.Fatal(err)
	}
	f.settled(t)
	_, list, _ = s.List(t.Context(), "")
	if _, err := describeBackup(s.blob, list); !errors.Is(err, errBackupMoved) {
		t.Errorf("a file over both: %v", err)
	}
	if _, err := describeBackup(s.blob, nil); !errors.Is(err, errBackupMoved) {
		t.Errorf("no history: %v", err)
	}
}

func TestBackupOfDamagedBytes(t *testing.T) {
	f, dir := backupFeeder(t), t.TempDir()
	s := &streamSource{t: t, f: f, flip: true}
	if _, err := backUp(t, s, dir); !errors.Is(err, errWrongSum) {
		t.Errorf("a flipped bit: %v", err)
	}
	s.flip = false
	mustBackUp(t, s, dir)
	// A damaged part of an earlier attempt is thrown away.
	f.fillTopics(t, 300, 320)
	if _, err := s.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(dir, backupFiles, hexSum(sha256.Sum256(s.state))+partSuffix)
	if err := os.WriteFile(part, []byte("these are not the bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	mustBackUp(t, s, dir)
	if _, err := CheckBackup(t.Context(), dir, nil); err != nil {
		t.Error(err)
	}
}

// TestBackupAgainMendsDamage: whichever file of a backup is damaged, the same backup again fetches it and nothing else but the manifest.
func TestBackupAgainMendsDamage(t *testing.T) {
	f, dir := backupFeeder(t), t.TempDir()
	s := &streamSource{t: t, f: f}
	first := mustBackUp(t, s, dir)
	files := []BackupFile{first.Manifest, first.State}
	for _, h := range first.History {
		files = append(files, h.BackupFile)
	}
	for _, file := range files {
		path := filepath.Join(dir, backupFiles, file.SHA256)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		flipped := bytes.Clone(whole)
		flipped[len(whole)-1] ^= 1
		for name, content := range map[string][]byte{"flipped": flipped, "cut": whole[:len(whole)-1], "longer": append(flipped, 0), "empty": {}} {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			s.opened = 0
			r := mustBackUp(t, s, dir)
			want, replaced := first.Manifest.Size, 0 // the manifest comes with the list
			if file != first.Manifest {
				want, replaced = want+file.Size, 1
			}
			if r.FetchedBytes != want || r.ReplacedFiles != replaced || s.opened != replaced {
				t.Errorf("%s of %s: %d bytes fetched, want %d; %d files replaced, %d opened", name, file.SHA256[:8], r.FetchedBytes, want, r.ReplacedFiles, s.opened)
			}
			if _, err := CheckBackup(t.Context(), dir, nil); err != nil {
				t.Errorf("%s of %s: %v", name, file.SHA256[:8], err)
			}
		}
	}
}

// TestBackupKeepsDamageThatNobodyHas: what cannot be fetched again is left as it is, for people to look at, and the backup is no success.
func TestBackupKeepsDamageThatNobodyHas(t *testing.T) {
	f, dir := backupFeeder(t), t.TempDir()
	s := &streamSource{t: t, f: f}
	first := mustBackUp(t, s, dir)
	path := filepath.Join(dir, backupFiles, first.History[0].SHA256)
	if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.flip = true
	if _, err := backUp(t, s, dir); !errors.Is(err, errWrongSum) {
		t.Errorf("the node's is wrong too: %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "damaged" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestCheckFindsDamage: every file cut, changed or missing is found, and named.
func TestCheckFindsDamage(t *testing.T) {
	f, dir := backupFeeder(t), t.TempDir()
	mustBackUp(t, &streamSource{t: t, f: f}, dir)
	paths, err := filepath.Glob(filepath.Join(dir, backupFiles, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(paths, filepath.Join(dir, backupDoc)) {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		flipped := bytes.Clone(whole)
		flipped[len(whole)/2] ^= 4
		for name, content := range map[string][]byte{"cut": whole[:len(whole)-1], "flipped": flipped, "empty": {}, "missing": nil} {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if content != nil {
				if err := os.WriteFile(path, content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := CheckBackup(t.Context(), dir, nil); !errors.Is(err, ErrBackup) {
				t.Errorf("%s of %s: %v", name, filepath.Base(path), err)
			}
			if _, err := RestoreBackup(t.Context(), dir, filepath.Join(t.TempDir(), "d"), nil); !errors.Is(err, ErrBackup) {
				t.Errorf("restored although %s was %s: %v", filepath.Base(path), name, err)
			}
			if err := os.WriteFile(path, whole, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := CheckBackup(t.Context(), dir, nil); err != nil {
		t.Error(err)
	}
}

// TestCheckReadsAllOfTheDocument: whichever byte of BACKUP.json is wrong.
func TestCheckReadsAllOfTheDocument(t *testing.T) {
	f, dir := backupFeeder(t), t.TempDir()
	mustBackUp(t, &streamSource{t: t, f: f}, dir)
	path := filepath.Join(dir, backupDoc)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		bad := bytes.Clone(whole)
		bad[i] ^= 1 << (i % 7)
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := CheckBackup(t.Context(), dir, nil); !errors.Is(err, ErrBackup) {
			t.Fatalf("byte %d changed from %q to %q: %v", i, whole[i], bad[i], err)
		}
	}
}

func TestBackupOfAnotherClusterIsRefused(t *testing.T) {
	f, dir := backupFeeder(t), t.TempDir()
	s := &streamSource{t: t, f: f}
	mustBackUp(t, s, dir)
	other := &otherCluster{*s}
	if _, err := Backup(t.Context(), BackupOptions{Dir: dir, Source: other}); err == nil || errors.Is(err, ErrBackup) {
		t.Errorf("two clusters in one folder: %v", err)
	}
}

type otherCluster struct{ streamSource }

func (o *otherCluster) List(ctx context.Context, id string) ([]byte, []subtree.Meta, error) {
	blob, list, err := o.streamSource.List(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	m, err := decodeSnapManifest(blob)
	if err != nil {
		return nil, nil, err
	}
	m.cluster = "c2"
	return m.encode(), list, nil
}

func TestRestoreWantsAnEmptyFolder(t *testing.T) {
	f, dir := backupFeeder(t), t.TempDir()
	mustBackUp(t, &streamSource{t: t, f: f}, dir)
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := RestoreBackup(t.Context(), dir, data, nil); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("a folder that is not empty: %v", err)
	}
	if _, err := RestoreBackup(t.Context(), t.TempDir(), filepath.Join(data, "d"), nil); !errors.Is(err, ErrBackup) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no backup: %v", err)
	}
}

// TestRestoreGoesOnAfterACrash: a folder with half a backup starts no node, and may be restored into again.
func TestRestoreGoesOnAfterACrash(t *testing.T) {
	f, dir, data := backupFeeder(t), t.TempDir(), filepath.Join(t.TempDir(), "deep", "data")
	mustBackUp(t, &streamSource{t: t, f: f}, dir)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := RestoreBackup(ctx, dir, data, func(done, total int64) {
		if entries, _ := os.ReadDir(filepath.Join(data, historyDir)); len(entries) > 2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	if _, err := openFolder(data); err == nil {
		t.Fatal("a node would start on half a backup")
	}
	r, err := RestoreBackup(t.Context(), dir, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := openFolder(data)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.close()
	if id := folder.identity(); id.NodeID != r.NodeID || id.ClusterID != r.ClusterID || id.HasLog || r.ClusterID == "c1" {
		t.Errorf("identity %+v, result %+v", id, r)
	}
}

// planRange puts a plan for a range of windows into force, which splits nothing.
func (f *feeder) planRange(first, last uint64) error {
	g := fsm.Generation{Number: f.s.machine.NextGeneration(), FirstWindow: first, LastWindow: last}
	return f.command(1_000_000, record.KindPlan, fsm.PlanBody(g))
}

// TestRestoredNodeServesTheStream: a node on a restored folder leads a new cluster, has every message, takes new ones, and restarts.
func TestRestoredNodeServesTheStream(t *testing.T) {
	f, dir, data := backupFeeder(t), t.TempDir(), filepath.Join(t.TempDir(), "data")
	mustBackUp(t, &streamSource{t: t, f: f}, dir)
	r, err := RestoreBackup(t.Context(), dir, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := readAll(t, f.s)
	for run := range 2 {
		n, err := Open(Options{
			DataDir: data, ClusterName: "test", BootstrapExpect: 3, MinFreeBytes: -1, HeartbeatTimeout: 300 * time.Millisecond, ElectionTimeout: 300 * time.Millisecond,
			LeaseTimeout: 300 * time.Millisecond, Stream: StreamOptions{Tip: smallTip, History: &HistoryOptions{}},
		})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the restored node to lead", func() bool { return n.isLeader() && n.Ready() == nil })
		if n.NodeID() != r.NodeID || n.ClusterID() != r.ClusterID {
			t.Errorf("run %d: node %s of cluster %s, want %+v", run, n.NodeID(), n.ClusterID(), r)
		}
		if got := readAll(t, n.Stream()); !slices.Equal(got, want) {
			t.Errorf("run %d: %d messages, want %d", run, len(got), len(want))
		}
		publishOne(t, n, fmt.Sprintf("after/%d", run))
		want = readAll(t, n.Stream())
		if len(want) != 301+run {
			t.Errorf("run %d: %d messages after one more", run, len(want))
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func publishOne(t *testing.T, n *Node, topic string) {
	t.Helper()
	var b record.BatchBuilder
	b.Reset(nil, nil)
	if err := b.Add(record.NewTopic, nil, []byte("x")); err != nil {
		t.Fatal(err)
	}
	done := make(chan fsm.Result, 1)
	s := &Submission{
		Batch: b.Finish(record.ProducerID{}, 0, 0, false), Names: []string{topic}, Complete: func(_ *Submission, r fsm.Result) { done <- r },
	}
	if err := n.Submit(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.Code != fsm.OK {
		t.Fatalf("publish: %v", r.Code)
	}
}

// readAll lists all messages of a stream.
func readAll(t *testing.T, s *Stream) (list []string) {
	t.Helper()
	r, err := s.OpenReader(ReaderOptions{Filters: mustFilters(t, "**"), Start: wire.StartFirst})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for r.Position() < r.Head() {
		var v tipstore.View
		if err := r.Read(&v, tipstore.Limit{Bytes: 1 << 20, UpTo: r.Head()}); err != nil {
			t.Fatal(err)
		}
		for _, part := range v.Parts {
			for len(part) > 0 {
				rec, rest, err := record.Next(part)
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, fmt.Sprintf("%d %d %s %s", rec.Seq(), rec.Time(), s.table.Name(topic.ID(rec.Topic())), rec.Payload()))
				part = rest
			}
		}
		v.Release()
	}
	return list
}
