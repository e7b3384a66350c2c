package subtree

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math"
	"path/filepath"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
)

// The manifest names the files of history. It is written anew at each change: under a temporary name, synced, renamed over
// the old one, folder synced. The rename is the commit point.
//
//	 0 u64 magic     "CNTSMANI"
//	 8 u32 version   2
//	12 u32 files     N
//	16 u64 edition   1, 2, ... with each write
//	24 u64 window    the oldest of history: the first file's; if there is none, the next to come after those dropped
//	32 u64 seq       the same of seqs
//	40 rows          N of 136 bytes, in seq order, adjacent
//	.. u32 crc       CRC-32C of all before
//
// Version 1, which is still read, had no window and no seq.
//
// Row:
//
//	  0 u32 kind
//	  4 u32 max topic
//	  8 u64 number
//	 16 u64 first window
//	 24 u64 last window
//	 32 u64 first seq
//	 40 u64 last seq
//	 48 i64 first time
//	 56 i64 last time
//	 64 u64 bytes       of the records
//	 72 u64 size        of the file
//	 80 u32 footer crc
//	 84 u32 reserved    0
//	 88 [32]byte        SHA-256 of the file
//	120 [16]byte        reserved, 0
const (
	manifestMagic    = "CNTSMANI"
	manifestVersion  = 2
	manifestHeadSize = 40
	manifestRowSize  = 136
)

type manifest struct {
	edition uint64
	base    base
	files   []Meta
}

// base is where history begins, also when it holds nothing.
type base struct{ window, seq uint64 }

// baseOf is the base of files, of which there is one at least.
func baseOf(files []*file) base { return base{files[0].meta.FirstWindow, files[0].meta.FirstSeq} }

func (m *manifest) encode() []byte {
	b := make([]byte, 0, manifestHeadSize+len(m.files)*manifestRowSize+4)
	b = append(b, manifestMagic...)
	b = le.AppendUint32(b, manifestVersion)
	b = le.AppendUint32(b, uint32(len(m.files)))
	b = le.AppendUint64(b, m.edition)
	b = le.AppendUint64(b, m.base.window)
	b = le.AppendUint64(b, m.base.seq)
	for i := range m.files {
		b = m.files[i].append(b)
	}
	return le.AppendUint32(b, checksum(b))
}

// writeTo writes the encoded manifest.
func (m *manifest) writeTo(w io.Writer) error {
	_, err := w.Write(m.encode())
	return err
}

func (m *Meta) append(b []byte) []byte {
	b = le.AppendUint32(b, uint32(m.Kind))
	b = le.AppendUint32(b, uint32(m.MaxTopic))
	for _, v := range [...]uint64{
		m.Number, m.FirstWindow, m.LastWindow, m.FirstSeq, m.LastSeq,
		uint64(m.FirstTime), uint64(m.LastTime), m.Bytes, uint64(m.Size),
	} {
		b = le.AppendUint64(b, v)
	}
	b = le.AppendUint32(b, m.FooterCRC)
	b = le.AppendUint32(b, 0)
	b = append(b, m.SHA256[:]...)
	return append(b, make([]byte, 16)...)
}

func decodeManifest(b []byte) (*manifest, *fault) {
	const oldHeadSize = 24 // version 1
	switch {
	case len(b) < oldHeadSize+4:
		return nil, &fault{int64(len(b)), "the manifest is cut"}
	case string(b[:8]) != manifestMagic:
		return nil, &fault{0, "not a manifest: wrong magic"}
	case le.Uint32(b[8:]) < 1 || le.Uint32(b[8:]) > manifestVersion:
		return nil, &fault{8, "unknown version"}
	}
	end, head := len(b)-4, manifestHeadSize
	if le.Uint32(b[end:]) != checksum(b[:end]) {
		return nil, &fault{int64(end), "wrong checksum of the manifest"}
	}
	if le.Uint32(b[8:]) == 1 {
		head = oldHeadSize
	}
	n := uint64(le.Uint32(b[12:]))
	if uint64(end) != uint64(head)+n*manifestRowSize {
		return nil, &fault{12, "the manifest's count does not fit its size"}
	}
	m := &manifest{edition: le.Uint64(b[16:]), files: make([]Meta, n)}
	if fault := m.decodeRows(b[head:end], head); fault != nil {
		return nil, fault
	}
	if fault := m.decodeBase(b[oldHeadSize:head]); fault != nil {
		return nil, fault
	}
	return m, nil
}

// decodeBase checks where history begins against the files; without bytes, in version 1, it is theirs.
func (m *manifest) decodeBase(b []byte) *fault {
	first := base{1, 1}
	if len(m.files) > 0 {
		first = base{m.files[0].FirstWindow, m.files[0].FirstSeq}
	}
	m.base = first
	if len(b) == 0 {
		return nil
	}
	m.base = base{le.Uint64(b), le.Uint64(b[8:])}
	if m.base.window == 0 || m.base.seq == 0 || len(m.files) > 0 && m.base != first {
		return &fault{24, "history does not begin where the first file does"}
	}
	return nil
}

// decodeRows fills in the files; head is where the rows stand.
func (m *manifest) decodeRows(b []byte, head int) *fault {
	for i := range m.files {
		at := head + i*manifestRowSize
		m.files[i] = decodeMeta(b[i*manifestRowSize:])
		if rule := m.files[i].validate(); rule != "" {
			return &fault{int64(at), rule}
		}
		if i > 0 && !m.files[i].follows(&m.files[i-1]) {
			return &fault{int64(at), "a file does not follow on the one before"}
		}
	}
	return nil
}

// follows tells whether the file begins where another ends.
func (m *Meta) follows(before *Meta) bool {
	return m.FirstSeq == before.LastSeq+1 && m.FirstWindow == before.LastWindow+1
}

func decodeMeta(b []byte) Meta {
	m := Meta{
		Kind: Kind(le.Uint32(b)), MaxTopic: topic.ID(le.Uint32(b[4:])), Number: le.Uint64(b[8:]),
		FirstWindow: le.Uint64(b[16:]), LastWindow: le.Uint64(b[24:]), FirstSeq: le.Uint64(b[32:]), LastSeq: le.Uint64(b[40:]),
		FirstTime: int64(le.Uint64(b[48:])), LastTime: int64(le.Uint64(b[56:])), Bytes: le.Uint64(b[64:]), Size: int64(le.Uint64(b[72:])),
		FooterCRC: le.Uint32(b[80:]),
	}
	copy(m.SHA256[:], b[88:])
	return m
}

func (m *Meta) validate() string {
	if rule := m.validateRanges(); rule != "" {
		return rule
	}
	if m.Size < headerSize+footerHeadSize+tailSize {
		return "a file's size is too small"
	}
	return ""
}

// readManifest reads the manifest of a folder; nil if there is none.
func readManifest(fsys vfs.FS, dir string) (*manifest, error) {
	b, err := vfs.ReadFile(fsys, filepath.Join(dir, manifestName), math.MaxInt64)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, fault := decodeManifest(b)
	if fault != nil {
		e := &CorruptError{Op: "open", File: manifestName, Offset: fault.at, Rule: fault.rule}
		if isNewer(b) {
			e.Err = ErrNewerVersion
		}
		return nil, e
	}
	return m, nil
}

// isNewer tells a manifest of a newer program from one of this or an older one whose version alone is damaged.
func isNewer(b []byte) bool {
	if len(b) < 12+4 || string(b[:8]) != manifestMagic || le.Uint32(b[8:]) <= manifestVersion {
		return false
	}
	own, end := bytes.Clone(b), len(b)-4
	for v := range uint32(manifestVersion) {
		le.PutUint32(own[8:], v+1)
		if le.Uint32(own[end:]) == checksum(own[:end]) {
			return false
		}
	}
	return true
}
