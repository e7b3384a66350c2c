package tipstore

import (
	"github.com/cantus-bus/cantus/internal/topic"
)

// STUBS: the contract of this package; the owner replaces this file by real ones.

type Options struct {
	SizeBytes  int64 // ring size; rounded up to whole chunks, at least 4
	ChunkBytes int   // 16 MiB; tests use smaller ones (>= 2 MiB because a batch must fit, or smaller with small batches)
	IndexOff   bool  // every read is a linear pass, for comparison
}

// Store is the tip: ring, index, fence, watches. One writer; readers never block it.
type Store struct{}

func Open(o Options, t *topic.Table) (*Store, error) { panic("stub") }
func (s *Store) Close() error                        { panic("stub") } // after all readers are done

// Append copies a validated run of records into the ring (one contiguous stretch of a chunk) and stamps topic id, seq
// (firstSeq, firstSeq+1, ...) and time on each. Topic numbers with record.NewTopic set are indexes into newTopics. Not yet visible to readers.
// Returns the stored bytes (padded records as they stand in the ring), valid until the next call: for the caller's digest.
func (s *Store) Append(run []byte, count int, newTopics []topic.ID, firstSeq uint64, time int64) []byte {
	panic("stub")
}

// Publish moves the fence to lastSeq: all appended is visible, watches of touched topics are woken. Writer only.
func (s *Store) Publish() { panic("stub") }

// Bounds: oldest and newest visible seq; (1, 0) when empty. first is the oldest seq still in the ring.
func (s *Store) Bounds() (first, last uint64) { panic("stub") }

// SeqAtTime is the first visible seq with time >= unix nanoseconds, last+1 if none.
func (s *Store) SeqAtTime(t int64) uint64 { panic("stub") }

// GoneError: the position has left the ring. errors.As.
type GoneError struct{ Wanted, Oldest uint64 }

func (e *GoneError) Error() string { panic("stub") }

// Cursor reads, in seq order, what a matcher accepts. One goroutine.
type Cursor struct{}

// NewCursor starts so that the first record is the first match with seq >= next.
func (s *Store) NewCursor(m *topic.Matcher, next uint64) *Cursor { panic("stub") }

// View is one read's result: pieces of the ring in order, each whole padded records (adjacent matches form one piece), pinned until Release.
type View struct {
	Parts       [][]byte
	Count       int
	Bytes       int // sum of parts
	First, Last uint64
	Scanned     uint64 // every match <= Scanned has now been returned
}

func (v *View) Release() { panic("stub") }

// Limit of one read.
type Limit struct {
	Bytes int    // stop before exceeding it, but return at least one record
	Count int    // 0: no limit
	UpTo  uint64 // 0: the fence; else stop after this seq
	Scan  int    // bytes of ring a linear pass may look at before it returns with Scanned advanced and Count maybe 0 (fairness); 0: default
}

// Read fills v (reusing its slices) with the next matches. Count 0 and Scanned == fence (or UpTo) means nothing more now;
// Count 0 and Scanned below it means call again. Errors: *GoneError.
func (c *Cursor) Read(v *View, l Limit) error { panic("stub") }

// Position is the last seq looked at (Scanned of the last read).
func (c *Cursor) Position() uint64 { panic("stub") }
func (c *Cursor) Close()           { panic("stub") }

// Watch wakes a sleeping reader when something that its filters match is published. It costs the writer nothing while nothing matches:
// per distinct topic of a publish the nodes up to the root are checked, and only watches that stand there are visited.
type Watch struct{}

// NewWatch registers; wake is called from the writer and must not block (it may be called spuriously).
func (s *Store) NewWatch(fs topic.Filters, wake func()) *Watch { panic("stub") }

// Arm asks for one wake. Order for a reader: Arm, Read until nothing more, sleep until woken.
func (w *Watch) Arm()   { panic("stub") }
func (w *Watch) Close() { panic("stub") }

// Stats for metrics.
type Stats struct {
	FirstSeq, LastSeq                      uint64
	RingBytes, UsedBytes                   int64
	Chunks, PinnedChunks, SpareChunks      int
	Blocks, FreeBlocks                     int
	IndexBytes                             int64
	Watches                                int
	IndexReads, LinearReads, Wakes, Fallen uint64
}

func (s *Store) Stats() Stats { panic("stub") }
