package subtree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"path/filepath"
	"testing"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
)

// seedFiles are small files of every kind, by name.
func seedFiles(f *testing.F) (*Store, map[string][]byte) {
	s, fs := newStream(), vfs.NewMem()
	for i := range 40 {
		s.add(f, []string{"a/b/c", "a/b/d", "x"}[i%3], bytes.Repeat([]byte{byte(i)}, i*5))
		if i == 20 {
			s.cut()
		}
	}
	s.cut()
	st := mustOpen(f, fs, s, Options{})
	f.Cleanup(func() { _ = st.Close() })
	for i := range s.cuts {
		mustSeal(f, st, s, s.window(i+1, s.cuts[i]))
	}
	mustRewrite(f, st, Generation{Number: 1, FirstWindow: 1, LastWindow: 1, Plans: s.plans(2)})
	files := map[string][]byte{}
	for _, name := range []string{"g-1.cnts", "w-2.cnts", manifestName} {
		b, err := fs.Bytes(filepath.Join("history", name))
		if err != nil {
			f.Fatal(err)
		}
		files[name] = b
	}
	return st, files
}

// FuzzManifest: what is accepted encodes to the same bytes.
func FuzzManifest(f *testing.F) {
	_, files := seedFiles(f)
	f.Add(files[manifestName])
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		if len(b) > 4 { // a fuzzer does not find checksums
			le.PutUint32(b[len(b)-4:], checksum(b[:len(b)-4]))
		}
		m, fault := decodeManifest(b)
		if (m == nil) == (fault == nil) {
			t.Fatal("neither a manifest nor a fault")
		}
		if m == nil {
			return
		}
		again := m.encode()
		// Reserved bytes are left out: a later version may use them.
		if le.Uint32(b[8:]) == manifestVersion && len(again) != len(b) {
			t.Fatalf("%d bytes encode to %d", len(b), len(again))
		}
		if n, fault := decodeManifest(again); fault != nil || len(n.files) != len(m.files) {
			t.Fatal(fault)
		}
	})
}

// FuzzFile writes two words anywhere into a history file, makes its checksums right, and reads all of it: no panic, no
// wrong order. (Whole files as inputs would cost the fuzzer its time for making them smaller.)
func FuzzFile(f *testing.F) {
	st, files := seedFiles(f)
	metas := st.Files()
	f.Add(true, uint16(0), uint64(0), uint16(0), uint64(0))
	f.Add(false, uint16(70), uint64(1), uint16(900), ^uint64(0))
	f.Fuzz(func(t *testing.T, generation bool, at uint16, value uint64, at2 uint16, value2 uint64) {
		b, m := bytes.Clone(files["w-2.cnts"]), metas[1]
		if generation {
			b, m = bytes.Clone(files["g-1.cnts"]), metas[0]
		}
		le.PutUint64(b[int(at)%(len(b)-8):], value)
		le.PutUint64(b[int(at2)%(len(b)-8):], value2)
		fuzzFile(t, st.table, b, m)
	})
}

func fuzzFile(t *testing.T, table *topic.Table, b []byte, m Meta) {
	mendChecksums(b)
	m.Size = int64(len(b))
	if tail, fault := decodeTail(b[len(b)-tailSize:], m.Size); fault == nil {
		m.FooterCRC = tail.footerCRC
		foot := b[tail.offset:]
		m.Bytes, m.FirstTime, m.LastTime, m.MaxTopic = le.Uint64(foot), int64(le.Uint64(foot[8:])), int64(le.Uint64(foot[16:])), topic.ID(le.Uint32(foot[24:]))
	}
	fs := vfs.NewMem()
	if err := fs.MkdirAll("history"); err != nil {
		t.Fatal(err)
	}
	fs.SetBytes(filepath.Join("history", m.Name()), b)
	fs.SetBytes(filepath.Join("history", manifestName), (&manifest{edition: 1, files: []Meta{m}}).encode())
	st, err := Open(fs, "history", table, Options{})
	if err != nil {
		return
	}
	defer st.Close()
	for _, filter := range []string{"**", "a/b/c", "a/**"} {
		c := st.NewCursor(topic.NewMatcher(table, mustFilters(t, filter)), m.FirstSeq)
		var v View
		for v.Scanned < m.LastSeq {
			before := c.Position()
			if err := c.Read(&v, Limit{}); err != nil {
				break
			}
			if err := checkView(&v, Limit{}, before, c.Position()); err != nil {
				t.Fatal(err)
			}
		}
		c.Close()
	}
	_, _ = st.MessageAt(m.LastSeq)
	if err := st.Scrub(context.Background(), nil); err != nil || len(st.Damaged()) == 0 && sha256.Sum256(b) != m.SHA256 {
		t.Fatal("other bytes than the manifest's SHA-256 is of, but nothing is damaged:", err)
	}
	_, _ = st.LastOf(topic.ID(table.Nodes()-1), 0)
	_ = st.Volumes(m.FirstWindow, m.LastWindow, func(topic.ID, []TopicVolume) error { return nil })
}

// mendChecksums makes the checksums of header, tail, footer, tables and directories right, where they can be found.
func mendChecksums(b []byte) {
	le.PutUint32(b[60:], checksum(b[:60]))
	end := b[len(b)-tailSize:]
	at, size := le.Uint64(end), le.Uint64(end[8:])
	if room := uint64(len(b) - tailSize); at <= room && size == room-at && size >= footerHeadSize {
		mendFooter(b, b[at:at+size])
		le.PutUint32(end[16:], checksum(b[at:at+size]))
	}
	le.PutUint32(end[32:], checksum(end[:32]))
}

func mendFooter(b, foot []byte) {
	sub := func(at, size uint64) []byte {
		if at > uint64(len(b)) || size > uint64(len(b))-at {
			return nil
		}
		return b[at : at+size]
	}
	parts, secs := int(le.Uint32(foot[28:])), int(le.Uint32(foot[32:]))
	rows := foot[footerHeadSize:]
	for i := 0; i < parts && len(rows) >= partitionRowSize; i++ {
		table := sub(le.Uint64(rows[8:])+le.Uint64(rows[16:]), uint64(le.Uint32(rows[24:]))*pageRowSize)
		for p := table; len(p) > 0; p = p[pageRowSize:] {
			le.PutUint32(p[20:], checksum(sub(le.Uint64(p[8:]), uint64(le.Uint32(p[16:])))))
		}
		le.PutUint32(rows[28:], checksum(table))
		rows = rows[partitionRowSize:]
	}
	for i := 0; i < secs && len(rows) >= sectionRowSize; i++ {
		sec := section{blocks: le.Uint32(rows[4:]), table: le.Uint64(rows[56:])}
		for page := range min(16, (uint64(sec.blocks)+tablePage-1)/tablePage) {
			offset, n := sec.tablePageAt(uint32(page))
			if t := sub(offset, uint64(n)*blockRowSize+4); t != nil {
				mendBlocks(b, t)
			}
		}
		rows = rows[sectionRowSize:]
	}
}

func mendBlocks(b, table []byte) {
	end := len(table) - 4
	for r := table[:end]; len(r) > 0; r = r[blockRowSize:] {
		at, size := le.Uint64(r), uint64(le.Uint32(r[8:]))
		if at <= uint64(len(b)) && size <= uint64(len(b))-at {
			le.PutUint32(r[20:], checksum(b[at:at+size]))
		}
	}
	le.PutUint32(table[end:], checksum(table[:end]))
}
