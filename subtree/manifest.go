package subtree

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
)

// The manifest names the files of history. It is written anew at each change: under a temporary name, synced, renamed over
// the old one, folder synced. The rename is the commit point.
//
//	 0 u64 magic     "CNTSMANI"
//	 8 u32 version   1
//	12 u32 files     N
//	16 u64 edition   1, 2, ... with each write
//	24 rows          N of 136 bytes, in seq order, adjacent
//	.. u32 crc       CRC-32C of all before
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
	manifestHeadSize = 24
	manifestRowSize  = 136
)

type manifest struct {
	edition uint64
	files   []Meta
}

func (m *manifest) encode() []byte {
	b := make([]byte, 0, manifestHeadSize+len(m.files)*manifestRowSize+4)
	b = append(b, manifestMagic...)
	b = le.AppendUint32(b, version)
	b = le.AppendUint32(b, uint32(len(m.files)))
	b = le.AppendUint64(b, m.edition)
	for i := range m.files {
		b = m.files[i].append(b)
	}
	return le.AppendUint32(b, checksum(b))
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
	switch {
	case len(b) < manifestHeadSize+4:
		return nil, &fault{int64(len(b)), "the manifest is cut"}
	case string(b[:8]) != manifestMagic:
		return nil, &fault{0, "not a manifest: wrong magic"}
	case le.Uint32(b[8:]) != version:
		return nil, &fault{8, "unknown version: written by a newer program"}
	}
	end := len(b) - 4
	if le.Uint32(b[end:]) != checksum(b[:end]) {
		return nil, &fault{int64(end), "wrong checksum of the manifest"}
	}
	n := uint64(le.Uint32(b[12:]))
	if uint64(end) != manifestHeadSize+n*manifestRowSize {
		return nil, &fault{12, "the manifest's count does not fit its size"}
	}
	m := &manifest{edition: le.Uint64(b[16:]), files: make([]Meta, n)}
	for i := range m.files {
		at := manifestHeadSize + i*manifestRowSize
		m.files[i] = decodeMeta(b[at:])
		if rule := m.files[i].validate(); rule != "" {
			return nil, &fault{int64(at), rule}
		}
		if i > 0 && (m.files[i].FirstSeq != m.files[i-1].LastSeq+1 || m.files[i].FirstWindow != m.files[i-1].LastWindow+1) {
			return nil, &fault{int64(at), "a file does not follow on the one before"}
		}
	}
	return m, nil
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
	b, err := readWhole(fsys, filepath.Join(dir, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, fault := decodeManifest(b)
	if fault != nil {
		return nil, &CorruptError{Op: "open", File: manifestName, Offset: fault.at, Rule: fault.rule}
	}
	return m, nil
}

func readWhole(fsys vfs.FS, path string) ([]byte, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if size > 0 {
		_, err = f.ReadAt(b, 0)
	}
	return b, err
}

// writeManifest makes a manifest the folder's.
func writeManifest(fsys vfs.FS, dir string, m *manifest) error {
	path := filepath.Join(dir, manifestName)
	f, err := fsys.Create(path + tempSuffix)
	if err != nil {
		return err
	}
	_, err = f.Write(m.encode())
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = fsys.Remove(path + tempSuffix)
		return err
	}
	return publish(fsys, dir, path)
}

// publish gives a file, written under its temporary name and synced, its name, and makes that durable.
func publish(fsys vfs.FS, dir, path string) error {
	if err := fsys.Rename(path+tempSuffix, path); err != nil {
		_ = fsys.Remove(path + tempSuffix)
		return err
	}
	return fsys.SyncDir(dir)
}
