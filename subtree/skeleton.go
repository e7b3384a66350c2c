package subtree

import (
	"context"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
)

// Store is the history of one stream: a folder of files and the manifest that names them. Every method may be called by
// any goroutine between Open and Close. Seals and rewrites run one at a time each, beside each other and beside readers.
type Store struct{}

// Open reads the manifest of a folder, which it makes if there is none, and removes what a crash left. A file that is
// missing or of another size than the manifest says does not keep the rest from being served: it is listed by Damaged, and
// reads that need it fail. The topics of all files must be topics of t, though maybe not yet (see ErrTableBehind).
func Open(fs vfs.FS, dir string, t *topic.Table, o Options) (*Store, error) { panic("skeleton") }

// Close closes the files. No other method may be running or be called any more.
func (s *Store) Close() error { panic("skeleton") }

// Files lists the files in seq order.
func (s *Store) Files() []Meta { panic("skeleton") }

// Damaged lists the files that failed a check since Open, one error each.
func (s *Store) Damaged() []*CorruptError { panic("skeleton") }

// Bounds are the oldest and the newest seq of history; last is first-1 if it is empty, (1, 0) in the beginning.
func (s *Store) Bounds() (first, last uint64) { panic("skeleton") }

// Windows are the oldest and the newest window; (1, 0) if there is none.
func (s *Store) Windows() (first, last uint64) { panic("skeleton") }

// Seal writes a window. next returns runs of whole records with topic id, seq and time stamped, all from FirstSeq to
// LastSeq in order; a run is used until the next call. A window that is there already is left alone, without a call of
// next, unless its file is damaged: then it is written again. ErrOutOfOrder if the window does not follow on the last.
// After an error history is as before and Seal may be called again.
func (s *Store) Seal(w Window, next func() (run []byte, err error)) error { panic("skeleton") }

// Limiter slows a rewrite down.
type Limiter interface {
	// Wait returns when this many bytes of records may be read, or with ctx's error.
	Wait(ctx context.Context, bytes int) error
}

// Rewrite builds the generation's file from the files that now cover its windows and puts it in their place. Readers go on
// beside it; the files replaced are removed when no read uses them. A generation that is there already, or that a later
// one has replaced, is left alone. ErrOutOfOrder if its range is not sealed or does not cover whole files. After an error
// history is as before. l may be nil.
func (s *Store) Rewrite(ctx context.Context, g Generation, l Limiter) error { panic("skeleton") }

// TopicVolume is what history holds of a topic in a range of windows.
type TopicVolume struct {
	Topic           topic.ID
	Messages, Bytes uint64 // bytes of records with padding
}

// Volumes tells, for each partition that has messages in a range of windows, in order of its node, the volumes of its
// topics in order of their ids. The range must cover whole files (ErrOutOfOrder). The slice is fn's during the call.
func (s *Store) Volumes(firstWindow, lastWindow uint64, fn func(partition topic.ID, topics []TopicVolume) error) error {
	panic("skeleton")
}

// SeqAtTime is the first seq of history with a time at or after t, unix nanoseconds; one above the last if there is none.
func (s *Store) SeqAtTime(t int64) (uint64, error) { panic("skeleton") }

// MessageAt returns a copy of the record with a seq. ErrNotFound if it is beyond history, *GoneError if it is older.
func (s *Store) MessageAt(seq uint64) (record.Record, error) { panic("skeleton") }

// LastOf returns a copy of the last record of a topic at or below upTo (0: at all) in history. ErrNotFound if there is
// none.
func (s *Store) LastOf(id topic.ID, upTo uint64) (record.Record, error) { panic("skeleton") }

// Cursor reads, in seq order, what a matcher accepts. It belongs to one goroutine.
type Cursor struct{}

// NewCursor returns a cursor whose first record will be the first match with seq >= next. The matcher is the cursor's from
// now on.
func (s *Store) NewCursor(m *topic.Matcher, next uint64) *Cursor { panic("skeleton") }

// Position is the last seq looked at: Scanned of the last read.
func (c *Cursor) Position() uint64 { panic("skeleton") }

// Read fills v, reusing its buffer, with the next matches. Count 0 with Scanned at UpTo or at the last of Bounds means that
// there is nothing more now; Count 0 with a lower Scanned: call again. Errors: *GoneError, *CorruptError, ErrTableBehind;
// nothing was read then, and the position is as before.
func (c *Cursor) Read(v *View, l Limit) error { panic("skeleton") }

// Rest lets go of the memory that the cursor holds but keeps its position: for readers that pause.
func (c *Cursor) Rest() { panic("skeleton") }

// Close is Rest for good. Views stay valid.
func (c *Cursor) Close() { panic("skeleton") }

// ReadStats count what a cursor has read.
type ReadStats struct {
	Messages       uint64 // returned
	Bytes          uint64 // of the records returned, with padding
	StoredBytes    uint64 // read from files, blocks and indexes
	DecodedBytes   uint64 // of blocks after decompression
	Blocks         uint64 // decoded
	BlocksSkipped  uint64 // passed over because no topic in them matches
	SectionsMerged uint64
}

// Stats are the cursor's figures so far.
func (c *Cursor) Stats() ReadStats { panic("skeleton") }
