package cluster

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"

	"github.com/cantus-bus/cantus/internal/vfs"
)

// snapshotSink takes one snapshot. Its goroutine writes the state file, then the manifest through Write, then closes it.
type snapshotSink struct {
	store   *snapshotStore
	m       snapManifest // what is known so far
	blob    bytes.Buffer // what was written to raft's face of the sink: the manifest
	settled bool         // closed or cancelled
	closed  error        // of the first Close
	done    func()       // called when Close has succeeded; nil: nobody asks
}

// ID implements raft.SnapshotSink.
func (k *snapshotSink) ID() string { return k.m.id() }

// Write implements raft.SnapshotSink: it takes the manifest.
func (k *snapshotSink) Write(b []byte) (int, error) {
	if k.settled {
		return 0, errSnapshotSettled
	}
	return k.blob.Write(b)
}

// writeState writes and syncs the state file, still under its temporary name, and notes its size and hash in the manifest.
func (k *snapshotSink) writeState(fill func(io.Writer) error) error {
	if k.settled {
		return errSnapshotSettled
	}
	h := sumWriter{h: sha256.New()}
	err := vfs.WriteTemp(k.store.fs, k.store.path(k.m.id()+stateSuffix), func(w io.Writer) error {
		h.w = w
		return fill(&h)
	})
	if err != nil {
		return fmt.Errorf("snapshot %s: write state: %w", k.m.id(), err)
	}
	k.m.stateSize = h.n
	h.h.Sum(k.m.stateSum[:0])
	return nil
}

// Close implements raft.SnapshotSink: the manifest that was written becomes the newest snapshot. It fails if a newer one has come
// meanwhile. Closing again changes nothing.
func (k *snapshotSink) Close() error {
	if k.settled {
		return k.closed
	}
	if k.closed = k.commit(); k.closed != nil {
		_ = k.Cancel() // removes what is of no use any more
		return k.closed
	}
	k.settle()
	if k.done != nil {
		k.done()
	}
	return nil
}

func (k *snapshotSink) commit() error {
	m, err := decodeSnapManifest(k.blob.Bytes())
	if err != nil {
		return fmt.Errorf("close snapshot %s: %w", k.m.id(), err)
	}
	if m.id() != k.m.id() || m.stateSize != k.m.stateSize || m.stateSum != k.m.stateSum {
		return fmt.Errorf("close snapshot %s: %w: its manifest is of another one", k.m.id(), errSnapshotFormat)
	}
	k.store.writing.Lock()
	defer k.store.writing.Unlock()
	return k.store.commit(m, k.blob.Bytes(), k.m.id()+stateSuffix+tempSuffix)
}

// Cancel implements raft.SnapshotSink: nothing of the snapshot stays. After Close or Cancel it does nothing.
func (k *snapshotSink) Cancel() error {
	if k.settled {
		return nil
	}
	k.settle()
	err := k.store.fs.Remove(k.store.path(k.m.id() + stateSuffix + tempSuffix))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // not written, or cleared away by what failed
	}
	return err
}

func (k *snapshotSink) settle() {
	k.settled = true
	k.store.mu.Lock()
	k.store.mu.sink = false
	k.store.mu.Unlock()
}

// sumWriter hashes and counts what passes.
type sumWriter struct {
	w io.Writer
	h hash.Hash
	n int64
}

func (w *sumWriter) Write(b []byte) (int, error) {
	n, err := w.w.Write(b)
	_, _ = w.h.Write(b[:n]) // never fails
	w.n += int64(n)
	return n, err
}
