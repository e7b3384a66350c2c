package subtree

import (
	"crypto/sha256"
	"fmt"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
)

// Kind tells windows from generations. Kinds are written to disk: never renumber.
type Kind uint32

const (
	KindWindow     Kind = 1 + iota // one window, a section per partition
	KindGeneration                 // several windows, a section per store
)

// String is "window" or "generation".
func (k Kind) String() string {
	switch k {
	case KindWindow:
		return "window"
	case KindGeneration:
		return "generation"
	}
	return fmt.Sprintf("kind(%d)", uint32(k))
}

// Meta describes one file of history. Seqs and windows are inclusive.
type Meta struct {
	Kind                    Kind
	Number                  uint64 // of the window or of the generation
	FirstWindow, LastWindow uint64 // equal to Number for a window
	FirstSeq, LastSeq       uint64
	FirstTime, LastTime     int64    // of the first and the last message, unix nanoseconds
	Bytes                   uint64   // of the records with padding, before compression
	MaxTopic                topic.ID // highest topic number that occurs
	Size                    int64    // of the file in bytes
	FooterCRC               uint32   // ties the file to the manifest without reading all of it
	SHA256                  [sha256.Size]byte
}

// Messages is how many the file holds: seqs are dense.
func (m *Meta) Messages() uint64 { return m.LastSeq - m.FirstSeq + 1 }

// Name is the file's name within the folder: w-<number>.cnts or g-<number>.cnts.
func (m *Meta) Name() string { return fileName(m.Kind, m.Number) }

// MarshalBinary is the file's row of the manifest, for other nodes.
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

func fileName(k Kind, number uint64) string {
	if k == KindGeneration {
		return fmt.Sprintf("g-%d%s", number, fileSuffix)
	}
	return fmt.Sprintf("w-%d%s", number, fileSuffix)
}

const (
	fileSuffix   = ".cnts"
	tempSuffix   = vfs.TempSuffix
	manifestName = "MANIFEST"
)

// Window says what Seal is to write. Windows are dense and adjacent: Number and FirstSeq follow on the last ones sealed.
type Window struct {
	Number            uint64 // from 1
	FirstSeq, LastSeq uint64
}

// Generation says what Rewrite is to write. The range of windows covers whole existing files.
type Generation struct {
	Number                  uint64 // ascending
	FirstWindow, LastWindow uint64
	Plans                   []PartitionPlan // a partition without one gets one store
}

// PartitionPlan says how one partition is split.
type PartitionPlan struct {
	Partition topic.ID // the partition's node
	Plan      Splitter
}

// Splitter assigns topics to stores. It must be a pure function, the same on every replica.
type Splitter interface {
	// Stores is how many there are, at least 1.
	Stores() int
	// StoreOf is the number of a topic's store, in [0, Stores()), for every topic of the partition.
	StoreOf(topic string) int
}
