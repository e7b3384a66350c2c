package subtree

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pierrec/lz4/v4"

	"github.com/cantus-bus/cantus/internal/vfs"
)

// dumper prints bytes field by field. It decodes by itself, so that a change of the layout shows in the golden file.
type dumper struct {
	b   []byte
	off int
	out strings.Builder
}

func (d *dumper) title(format string, args ...any) { fmt.Fprintf(&d.out, "-- "+format+"\n", args...) }

func (d *dumper) field(n int, format string, args ...any) []byte {
	v := d.b[d.off : d.off+n]
	for i := 0; i < n; i += 16 {
		comment := ""
		if i == 0 {
			comment = fmt.Sprintf(format, args...)
		}
		fmt.Fprintln(&d.out, strings.TrimRight(fmt.Sprintf("%4d  %-47s  %s", d.off+i, fmt.Sprintf("% x", v[i:min(i+16, n)]), comment), " "))
	}
	d.off += n
	return v
}

func (d *dumper) u32(name string) int {
	v := binary.LittleEndian.Uint32(d.b[d.off:])
	d.field(4, "%s: %d", name, v)
	return int(v)
}

func (d *dumper) u64(names ...string) (last int) {
	for _, name := range names {
		last = int(binary.LittleEndian.Uint64(d.b[d.off:]))
		d.field(8, "%s: %d", name, last)
	}
	return last
}

func (d *dumper) varint(name string) int {
	v, n := binary.Uvarint(d.b[d.off:])
	d.field(n, "%s: %d", name, v)
	return int(v)
}

func (d *dumper) header() {
	d.title("header")
	d.field(8, "magic: %s", d.b[d.off:d.off+8])
	d.u32("version")
	d.u32("kind")
	d.u64("number", "first window", "last window", "first seq", "last seq")
	d.u32("codec")
	d.field(4, "crc")
}

// body prints the partitions, whose rows were read from the footer that begins at an offset.
func (d *dumper) body(footer int) {
	u32 := func(at int) int { return int(binary.LittleEndian.Uint32(d.b[at:])) }
	u64 := func(at int) int { return int(binary.LittleEndian.Uint64(d.b[at:])) }
	row, sec := footer+40, footer+40+u32(footer+28)*40
	for range u32(footer + 28) {
		n := u32(row + 4)
		for i := range n {
			d.blocks(u64(sec+i*64+56), u32(sec+i*64+4))
		}
		for i := range n {
			d.table(u32(sec + i*64 + 4))
		}
		d.directory(u32(row+24), u32(row+32))
		row, sec = row+40, sec+n*64
	}
}

// blocks prints the blocks of a section, whose table is at an offset.
func (d *dumper) blocks(table, n int) {
	for i := range n {
		at := table + i*40 + i/64*4
		stored, raw := int(binary.LittleEndian.Uint32(d.b[at+8:])), int(binary.LittleEndian.Uint32(d.b[at+12:]))
		if d.off != int(binary.LittleEndian.Uint64(d.b[at:])) {
			fmt.Fprintf(&d.out, "a block is not where its table says\n")
		}
		records := d.b[d.off : d.off+stored]
		how := "not compressed"
		if stored < raw {
			how = fmt.Sprintf("LZ4, %d bytes", raw)
			records = make([]byte, raw)
			if _, err := lz4.UncompressBlock(d.b[d.off:d.off+stored], records); err != nil {
				fmt.Fprintln(&d.out, err)
			}
		}
		d.title("block, %s, seqs %v", how, seqsOf(records))
		if stored > 256 {
			d.field(64, "the first of %d bytes with CRC-32C %08x", stored, checksum(d.b[d.off:d.off+stored]))
			d.off += stored - 64
			continue
		}
		d.field(stored, "")
	}
}

func (d *dumper) table(n int) {
	d.title("block table")
	for range n {
		d.u64("offset")
		d.u32("stored")
		d.u32("raw")
		d.u32("count")
		d.field(4, "crc")
		d.u64("first seq", "last seq")
	}
	d.field(4, "crc of the page")
}

func (d *dumper) directory(pages, topics int) {
	d.title("directory")
	for range topics {
		for _, name := range []string{"topic", "section", "messages", "bytes", "last seq"} {
			d.varint(name)
		}
		for range d.varint("runs") {
			if d.varint("gap<<1|more")&1 == 1 {
				d.varint("blocks-2")
			}
		}
	}
	for range pages {
		d.u32("page: first topic")
		d.u32("entries")
		d.u64("offset")
		d.u32("size")
		d.field(4, "crc")
	}
}

func (d *dumper) footer() {
	d.title("footer")
	d.u64("bytes", "first time", "last time")
	d.u32("max topic")
	parts, secs, samples := d.u32("partitions"), d.u32("sections"), d.u32("samples")
	for range parts {
		d.u32("partition: node")
		d.u32("sections")
		d.u64("directory", "size")
		d.u32("pages")
		d.field(4, "crc of the page table")
		d.u32("topics")
		d.u32("reserved")
	}
	for range secs {
		d.u32("section: store")
		d.u32("blocks")
		d.u64("messages", "bytes", "first seq", "last seq", "offset", "stored", "table")
	}
	for range samples {
		d.u64("sample: seq", "time")
	}
	d.title("tail")
	d.u64("footer", "size")
	d.field(4, "crc of the footer")
	d.u32("version")
	d.field(8, "magic: %s", d.b[d.off:d.off+8])
	d.field(4, "crc")
}

func (d *dumper) manifest() {
	d.field(8, "magic: %s", d.b[d.off:d.off+8])
	d.u32("version")
	files := d.u32("files")
	d.u64("edition", "oldest window", "oldest seq")
	for range files {
		d.u32("file: kind")
		d.u32("max topic")
		d.u64("number", "first window", "last window", "first seq", "last seq", "first time", "last time", "bytes", "size")
		d.field(4, "footer crc")
		d.u32("reserved")
		d.field(32, "SHA-256")
		d.field(16, "reserved")
	}
	d.field(4, "crc")
}

// goldenStream has two windows: partitions, a topic of one segment, a block of many equal records, times that are sampled.
func goldenStream(t *testing.T) *stream {
	s := newStream()
	for i := range 1030 {
		name := []string{"a/b/c", "a/b/d", "a/b", "solo"}[i%4]
		if i >= 9 {
			name = "a/b/d"
		}
		s.time += 1000
		s.add(t, name, []byte(fmt.Sprintf("%04d", i)))
		if i == 5 {
			s.cut()
		}
	}
	for range 2 {
		s.add(t, "a/b/d", make([]byte, 30_000))
	}
	s.cut()
	return s
}

// TestGolden keeps the drawings of the formats true: any change of the bytes shows here. CANTUS_REWRITE=1 writes the files.
func TestGolden(t *testing.T) {
	s, fs := goldenStream(t), vfs.NewMem()
	st := mustOpen(t, fs, s, Options{})
	defer st.Close()
	mustSeal(t, st, s, s.window(1, s.cuts[0]))
	compareGolden(t, fs, "w-1.cnts")
	compareGolden(t, fs, "MANIFEST")
	mustSeal(t, st, s, s.window(2, s.cuts[1]))
	node, _ := s.table.Lookup("a/b")
	mustRewrite(t, st, Generation{Number: 1, FirstWindow: 1, LastWindow: 2, Plans: []PartitionPlan{{node, hashPlan{3, 0}}}})
	compareGolden(t, fs, "g-1.cnts")
}

func compareGolden(t *testing.T, fs *vfs.Mem, name string) {
	t.Helper()
	b, err := fs.Bytes(filepath.Join("history", name))
	if err != nil {
		t.Fatal(err)
	}
	d := dumper{b: b}
	if name == manifestName {
		d.manifest()
	} else {
		d.header()
		footer := int(binary.LittleEndian.Uint64(b[len(b)-36:]))
		d.body(footer)
		if d.off != footer {
			t.Errorf("%s: partitions end at %d, the footer begins at %d", name, d.off, footer)
		}
		d.footer()
	}
	if d.off != len(b) {
		t.Errorf("%s: %d of %d bytes printed", name, d.off, len(b))
	}
	path := filepath.Join("testdata", "golden", name+".txt")
	if os.Getenv("CANTUS_REWRITE") != "" {
		if err := os.WriteFile(path, []byte(d.out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != d.out.String() {
		t.Errorf("%s differs from %s (%v):\n%s", name, path, err, d.out.String())
	}
}
