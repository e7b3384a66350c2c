package cluster

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
	"github.com/cantus-bus/cantus/subtree"
)

// CheckBackup reads every byte of a backup, checks every hash, loads the state, and holds its digest against the recorded one.
// Progress is told of bytes read; it may be nil. Errors are ErrBackup, and fs.ErrNotExist where there is no whole backup.
func CheckBackup(ctx context.Context, dir string, progress func(done, total int64)) (*BackupInfo, error) {
	b, err := openBackup(ctx, vfs.OS(), dir, progress)
	if err != nil {
		return nil, fmt.Errorf("check backup %s: %w", dir, err)
	}
	return b.info, nil
}

// wholeBackup is a backup that was checked.
type wholeBackup struct {
	fs       vfs.FS
	dir      string
	info     *BackupInfo
	manifest *snapManifest
	table    *topic.Table // of the state
	progress func(done, total int64)
	done     int64
}

// openBackup checks everything. All files are looked at, so that the error names each that is bad.
func openBackup(ctx context.Context, fsys vfs.FS, dir string, progress func(done, total int64)) (*wholeBackup, error) {
	info, err := readBackup(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: it has no %s: the backup was never finished: run it again, it goes on where it stopped: %w", ErrBackup, backupDoc, err)
	}
	if err != nil {
		return nil, err
	}
	b := &wholeBackup{fs: fsys, dir: dir, info: info, progress: progress}
	if b.manifest, err = b.readManifest(); err != nil {
		return nil, err
	}
	errs := []error{b.check(ctx, "the state", info.State)}
	for i := range info.History {
		f := &info.History[i]
		errs = append(errs, b.check(ctx, f.Name, f.BackupFile))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return b, b.loadState()
}

// howToMendDoc is for a document that says nothing that could be relied on.
const howToMendDoc = "remove it, and the same backup again makes it anew of the files beside it and of what is missing"

// readBackup reads BACKUP.json and what it says of itself.
func readBackup(fsys vfs.FS, dir string) (*BackupInfo, error) {
	doc, err := readFile(fsys, filepath.Join(dir, backupDoc))
	if err != nil {
		return nil, err
	}
	info := &BackupInfo{doc: doc}
	if err := json.Unmarshal(doc, info); err != nil {
		return nil, fmt.Errorf("%w: %s: %w: %s", ErrBackup, backupDoc, err, howToMendDoc)
	}
	if info.Format != backupFormat {
		return nil, fmt.Errorf("%w: %s has format %d, this program knows %d: use a newer version", ErrBackup, backupDoc, info.Format, backupFormat)
	}
	for i := range info.History {
		if err := info.History[i].decode(); err != nil {
			return nil, fmt.Errorf("%w: %s: file %d of history: %w: %s", ErrBackup, backupDoc, i, err, howToMendDoc)
		}
	}
	return info, nil
}

// decode fills meta, and refuses a row that says something else than the fields beside it.
func (f *BackupHistoryFile) decode() error {
	if err := f.meta.UnmarshalBinary(f.Meta); err != nil {
		return err
	}
	m := &f.meta
	if m.Name() != f.Name || hexSum(m.SHA256) != f.SHA256 || m.Size != f.Size || m.FirstSeq != f.FirstSeq || m.LastSeq != f.LastSeq {
		return fmt.Errorf("%s: meta is of another file", f.Name)
	}
	return nil
}

func (b *wholeBackup) path(f BackupFile) string { return filepath.Join(b.dir, backupFiles, f.SHA256) }

// readManifest reads the snapshot's manifest and holds the document against it: it must be what this snapshot and these files of history
// make of it, to the byte.
func (b *wholeBackup) readManifest() (*snapManifest, error) {
	blob, err := readFile(b.fs, b.path(b.info.Manifest))
	if err != nil {
		return nil, b.bad("the snapshot's manifest", b.info.Manifest, err)
	}
	m, err := decodeSnapManifest(blob)
	if err != nil {
		return nil, b.bad("the snapshot's manifest", b.info.Manifest, err)
	}
	metas := make([]subtree.Meta, len(b.info.History))
	for i := range metas {
		metas[i] = b.info.History[i].meta
	}
	want, err := describeBackup(blob, metas)
	if err != nil {
		return nil, fmt.Errorf("%w: history: %w", ErrBackup, err)
	}
	doc, err := want.encode()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(doc, b.info.doc) {
		return nil, fmt.Errorf("%w: %s is damaged, or of another snapshot than %s: %s", ErrBackup, backupDoc, m.id(), howToMendDoc)
	}
	b.advance(int64(len(blob)))
	return m, nil
}

func (b *wholeBackup) advance(n int64) {
	b.done += n
	if b.progress != nil {
		b.progress(b.done, b.info.Bytes)
	}
}

// check reads a file and holds it against its hash.
func (b *wholeBackup) check(ctx context.Context, what string, f BackupFile) error {
	h := sha256.New()
	err := b.copyFile(ctx, f, h)
	if err == nil && hex.EncodeToString(h.Sum(nil)) != f.SHA256 {
		err = errWrongSum
	}
	if err != nil && ctx.Err() == nil {
		return b.bad(what, f, err)
	}
	return err
}

// bad says which file of the backup is not as it should be, and what makes it whole.
func (b *wholeBackup) bad(what string, f BackupFile, err error) error {
	return fmt.Errorf("%w: %s (%s): %w: a backup of the same cluster into this folder fetches anew what is missing or damaged", ErrBackup, what, b.path(f), err)
}

// copyFile writes a file's bytes to w. ctx ends it between two pieces.
func (b *wholeBackup) copyFile(ctx context.Context, f BackupFile, w io.Writer) error {
	file, err := b.fs.Open(b.path(f))
	if err != nil {
		return err
	}
	defer file.Close()
	size, err := file.Size()
	if err == nil && size != f.Size {
		err = fmt.Errorf("it has %d bytes of %d", size, f.Size)
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(io.MultiWriter(w, counter(b.advance)), &stoppable{ctx, io.NewSectionReader(file, 0, size)})
	return err
}

// stoppable reads until ctx ends.
type stoppable struct {
	ctx context.Context
	r   io.Reader
}

func (s *stoppable) Read(b []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.Read(b)
}

// loadState makes a state machine of the state file, which checks its digest, and reads the messages behind it.
func (b *wholeBackup) loadState() error {
	f, err := b.fs.Open(b.path(b.info.State))
	if err != nil {
		return b.bad("the state", b.info.State, err)
	}
	defer f.Close()
	if err := b.readState(bufio.NewReaderSize(io.NewSectionReader(f, 0, b.info.State.Size), stateBuffer)); err != nil {
		return b.bad("the state", b.info.State, err)
	}
	return nil
}

func (b *wholeBackup) readState(r *bufio.Reader) error {
	if err := readStateHead(r); err != nil {
		return err
	}
	b.table = topic.NewTable(fsm.DefaultMaxTopics)
	machine := fsm.New(fsm.Options{Table: b.table, Log: noLog{}, MaxProducers: fsm.DefaultMaxProducers, CheckPlan: checkPlan})
	if err := machine.Restore(r); err != nil {
		return err
	}
	m, w := b.manifest, newestSealed(machine)
	if machine.LastSeq() != m.seq || machine.FirstSeq() != m.firstSeq || w.Number != m.window || w.LastSeq != m.windowSeq {
		return fmt.Errorf("it has seqs %d to %d and window %d, the manifest says %d to %d and %d", machine.FirstSeq(), machine.LastSeq(), w.Number, m.firstSeq, m.seq, m.window)
	}
	return readTail(r, m.windowSeq+1, m.seq, tailBlockBytes, func([]byte, int, uint64, int64) error { return nil })
}

// noLog is the log of a machine that applies nothing.
type noLog struct{}

func (noLog) Append(run []byte, _ int, _ []topic.ID, _ uint64, _ int64) []byte { return run }
func (noLog) Publish()                                                         {}
