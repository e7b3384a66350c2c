package cluster

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/hashicorp/raft"
)

// A snapshot's manifest is the file s-<term>-<index>.snap, and what raft takes for the snapshot's content. All numbers are
// little-endian.
//
//	  0 [8]byte magic    "CNTSSNAP"
//	  8 u32 version      1
//	 12 u32 length       of all, with the crc
//	 16 u64 index        newest log entry that the state holds
//	 24 u64 term         of that entry
//	 32 u64 config index entry that made the configuration below
//	 40 u64 seq          newest message, 0: none
//	 48 u64 first seq    oldest message that is kept
//	 56 u64 window       number of the last sealed window, 0: none
//	 64 u64 window seq   its last seq, 0: none; the state file's tail begins after it
//	 72 i64 time         when it was made, by the clock of the node that did, unix nanoseconds
//	 80 u64 state size   of the state file
//	 88 [32]byte         SHA-256 of the state file
//	120 u32 servers      S
//	124 u32 files        F
//	128 string           cluster id
//	 .. S servers        u8 suffrage (0 voter, 1 non-voter), string id, string address
//	 .. F files          of history when it was made: string name, u64 size, [32]byte SHA-256
//	 .. u32 crc          CRC-32C of all before
//
// A string is a u16 length and so many bytes.
const (
	snapshotMagic    = "CNTSSNAP"
	snapshotFormat   = 1
	snapshotHeadSize = 128
	// maxSnapshotBlob bounds a manifest: a million files of history.
	maxSnapshotBlob = 64 << 20
)

// raftSnapshotVersion is raft's number for snapshots with a configuration in place of a list of peers.
const raftSnapshotVersion = raft.SnapshotVersionMax

// errSnapshotFormat is the family of manifests and state files that are damaged or of a newer version.
var errSnapshotFormat = errors.New("snapshot is damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func crcOf(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// snapManifest says what a snapshot is and what it needs.
type snapManifest struct {
	index, term   uint64
	config        raft.Configuration
	configIndex   uint64
	cluster       string
	seq, firstSeq uint64
	window        uint64 // number of the last sealed window; 0: none
	windowSeq     uint64 // its last seq
	time          int64
	stateSize     int64
	stateSum      [sha256.Size]byte
	files         []snapFile
}

// snapFile is a file of history as it was when the snapshot was made.
type snapFile struct {
	name string
	size int64
	sum  [sha256.Size]byte
}

// encode writes the manifest.
func (m *snapManifest) encode() []byte {
	le := binary.LittleEndian
	b := append(make([]byte, 0, 1024), snapshotMagic...)
	b = le.AppendUint32(b, snapshotFormat)
	b = le.AppendUint32(b, 0)
	for _, n := range [...]uint64{m.index, m.term, m.configIndex, m.seq, m.firstSeq, m.window, m.windowSeq, uint64(m.time), uint64(m.stateSize)} {
		b = le.AppendUint64(b, n)
	}
	b = append(b, m.stateSum[:]...)
	b = le.AppendUint32(b, uint32(len(m.config.Servers)))
	b = le.AppendUint32(b, uint32(len(m.files)))
	b = appendString(b, m.cluster)
	for _, s := range m.config.Servers {
		suffrage := byte(0)
		if s.Suffrage != raft.Voter {
			suffrage = 1
		}
		b = append(b, suffrage)
		b = appendString(b, string(s.ID))
		b = appendString(b, string(s.Address))
	}
	for i := range m.files {
		b = appendString(b, m.files[i].name)
		b = le.AppendUint64(b, uint64(m.files[i].size))
		b = append(b, m.files[i].sum[:]...)
	}
	le.PutUint32(b[12:], uint32(len(b)+4))
	return le.AppendUint32(b, crcOf(b))
}

func appendString(b []byte, s string) []byte {
	s = s[:min(len(s), math.MaxUint16)]
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(s))), s...)
}

// decodeSnapManifest reads a manifest, whose bytes must be exactly b. Errors are errSnapshotFormat.
func decodeSnapManifest(b []byte) (*snapManifest, error) {
	le := binary.LittleEndian
	switch {
	case len(b) < snapshotHeadSize+2+4 || len(b) > maxSnapshotBlob:
		return nil, fmt.Errorf("%w: the manifest has %d bytes", errSnapshotFormat, len(b))
	case string(b[:8]) != snapshotMagic:
		return nil, fmt.Errorf("%w: not a snapshot's manifest: wrong magic", errSnapshotFormat)
	case le.Uint32(b[8:]) != snapshotFormat:
		return nil, wrongVersion(b)
	case uint64(le.Uint32(b[12:])) != uint64(len(b)):
		return nil, fmt.Errorf("%w: the manifest has %d bytes of %d", errSnapshotFormat, len(b), le.Uint32(b[12:]))
	case le.Uint32(b[len(b)-4:]) != crcOf(b[:len(b)-4]):
		return nil, fmt.Errorf("%w: wrong checksum of the manifest", errSnapshotFormat)
	}
	m := &snapManifest{time: int64(le.Uint64(b[72:])), stateSize: int64(le.Uint64(b[80:]))}
	for i, p := range []*uint64{&m.index, &m.term, &m.configIndex, &m.seq, &m.firstSeq, &m.window, &m.windowSeq} {
		*p = le.Uint64(b[16+8*i:])
	}
	copy(m.stateSum[:], b[88:])
	d := snapDecoder{b: b[snapshotHeadSize : len(b)-4]}
	m.cluster = d.string()
	for n := le.Uint32(b[120:]); n > 0 && !d.short; n-- {
		m.config.Servers = append(m.config.Servers, d.server())
	}
	for n := le.Uint32(b[124:]); n > 0 && !d.short; n-- {
		m.files = append(m.files, d.file())
	}
	if d.short || len(d.b) > 0 || d.strange {
		return nil, fmt.Errorf("%w: the manifest's lists do not fit its size", errSnapshotFormat)
	}
	return m, m.check()
}

// check finds what no snapshot says of itself.
func (m *snapManifest) check() error {
	switch {
	case m.index == 0 || m.term == 0 || m.configIndex > m.index:
		return fmt.Errorf("%w: index %d of term %d with the configuration of index %d", errSnapshotFormat, m.index, m.term, m.configIndex)
	case m.windowSeq > m.seq || (m.window == 0) != (m.windowSeq == 0) || m.firstSeq > m.seq+1 || m.firstSeq == 0:
		return fmt.Errorf("%w: seqs %d to %d with window %d up to seq %d", errSnapshotFormat, m.firstSeq, m.seq, m.window, m.windowSeq)
	case m.stateSize <= 0:
		return fmt.Errorf("%w: a state of %d bytes", errSnapshotFormat, m.stateSize)
	}
	return nil
}

// id is raft's name of the snapshot, and its files' without the suffix.
func (m *snapManifest) id() string { return snapshotID(m.term, m.index) }

func snapshotID(term, index uint64) string { return fmt.Sprintf("s-%d-%d", term, index) }

// meta is what raft wants to know of it.
func (m *snapManifest) meta(size int64) *raft.SnapshotMeta {
	return &raft.SnapshotMeta{
		Version: raftSnapshotVersion, ID: m.id(), Index: m.index, Term: m.term,
		Configuration: m.config, ConfigurationIndex: m.configIndex, Size: size,
	}
}

// snapDecoder takes values off b. After the end it gives zeros, and short is true.
type snapDecoder struct {
	b              []byte
	short, strange bool
}

func (d *snapDecoder) take(n int) []byte {
	if n > len(d.b) {
		d.short = true
		return make([]byte, n)
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *snapDecoder) string() string {
	return string(d.take(int(binary.LittleEndian.Uint16(d.take(2)))))
}

func (d *snapDecoder) server() (s raft.Server) {
	switch d.take(1)[0] {
	case 0:
		s.Suffrage = raft.Voter
	case 1:
		s.Suffrage = raft.Nonvoter
	default:
		d.strange = true
	}
	s.ID = raft.ServerID(d.string())
	s.Address = raft.ServerAddress(d.string())
	return s
}

func (d *snapDecoder) file() (f snapFile) {
	f.name = d.string()
	f.size = int64(binary.LittleEndian.Uint64(d.take(8)))
	copy(f.sum[:], d.take(sha256.Size))
	return f
}

// wrongVersion is the error of a manifest that says another version than this program's: it is newer, or damaged just there.
func wrongVersion(b []byte) error {
	le := binary.LittleEndian
	v, end, own := le.Uint32(b[8:]), len(b)-4, slices.Clone(b)
	le.PutUint32(own[8:], snapshotFormat)
	if v < snapshotFormat || le.Uint32(own[end:]) == crcOf(own[:end]) {
		return fmt.Errorf("%w: its version is %d", errSnapshotFormat, v)
	}
	return fmt.Errorf("%w: its version is %d, this program knows %d: %w", errSnapshotFormat, v, snapshotFormat, errNewerVersion)
}
