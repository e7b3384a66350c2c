package subtree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

var errNotYet = errors.ErrUnsupported

// Drop forgets the files that lie wholly in windows up to through, by one manifest write. A file that reaches beyond stays,
// and so do those after it. Readers that hold a dropped file read on; a cursor that asks for what is gone gets a GoneError.
func (s *Store) Drop(through uint64) error { return fmt.Errorf("subtree: drop: %w", errNotYet) }

// Held is a file of history that stays readable until Close, though it may leave the manifest meanwhile.
type Held struct {
	s    *Store
	f    *file
	next int64
}

// OpenSum opens the file with a SHA-256. errors.Is(err, fs.ErrNotExist) if history has none; a CorruptError if it is damaged.
func (s *Store) OpenSum(sum [32]byte) (*Held, error) {
	return nil, fmt.Errorf("subtree: open a file by its sum: %w", fs.ErrNotExist)
}

// Meta is what the manifest says of the file.
func (h *Held) Meta() Meta { return h.f.meta }

// Size is the file's length in bytes.
func (h *Held) Size() int64 { return h.f.meta.Size }

// Read implements io.Reader.
func (h *Held) Read(b []byte) (int, error) { return 0, io.EOF }

// ReadAt implements io.ReaderAt.
func (h *Held) ReadAt(b []byte, at int64) (int, error) { return 0, io.EOF }

// Seek implements io.Seeker.
func (h *Held) Seek(offset int64, whence int) (int64, error) { return 0, errNotYet }

// Close lets the file go.
func (h *Held) Close() error { return nil }

// Missing lists those of want that are neither here, whole and under this name with this sum, nor received.
func (s *Store) Missing(want []Meta) []Meta { return want }

// Incoming is a file that is being received.
type Incoming struct{}

// Receive begins to take in a file, or goes on where an earlier attempt, also one before a restart, has stopped.
func (s *Store) Receive(m Meta) (*Incoming, error) {
	return nil, fmt.Errorf("subtree: receive: %w", errNotYet)
}

// Have is how many of the file's bytes are here: the next Write goes on there.
func (in *Incoming) Have() int64 { return 0 }

// Write takes the next bytes.
func (in *Incoming) Write(b []byte) (int, error) { return 0, errNotYet }

// Commit makes the bytes durable and checks them; the file counts as received then. After an error of the check the bytes
// are gone.
func (in *Incoming) Commit() error { return errNotYet }

// Discard throws the bytes away.
func (in *Incoming) Discard() error { return nil }

// Close keeps what is here for a later Receive. After Commit or Discard it does nothing.
func (in *Incoming) Close() error { return nil }

// Install puts files into the manifest by one write.
func (s *Store) Install(files []Meta) error { return fmt.Errorf("subtree: install: %w", errNotYet) }

// Forget removes received bytes, whole files and parts, of all files but those of want and those being received now.
func (s *Store) Forget(want []Meta) error { return nil }

// Scrub reads every byte of every file and checks all checksums. Damage is noted, see Damaged, and is no error.
func (s *Store) Scrub(ctx context.Context, l Limiter) error { return ctx.Err() }

// ReadStats are the bytes that readers have caused to be read from files, and those of the records decompressed from them.
func (s *Store) ReadStats() (diskBytes, recordBytes uint64) { return 0, 0 }

// MarshalBinary is the file's row in the manifest, for other nodes.
func (m *Meta) MarshalBinary() ([]byte, error) { return m.append(nil), nil }

// UnmarshalBinary reads a row that MarshalBinary made, and checks it.
func (m *Meta) UnmarshalBinary(b []byte) error {
	if len(b) != manifestRowSize {
		return fmt.Errorf("subtree: a file's description has %d bytes, want %d: %w", len(b), manifestRowSize, ErrCorrupt)
	}
	x := decodeMeta(b)
	if rule := x.validate(); rule != "" {
		return fmt.Errorf("subtree: a file's description: %s: %w", rule, ErrCorrupt)
	}
	*m = x
	return nil
}
