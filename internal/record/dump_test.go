package record

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// dumper prints bytes field by field. It decodes by itself, so that a change of the layout shows in the golden file.
type dumper struct {
	b   []byte
	off int
	out strings.Builder
}

// field prints the next n bytes with a comment and returns them.
func (d *dumper) field(n int, format string, args ...any) []byte {
	v := d.b[d.off : d.off+n]
	for i := 0; i < n || i == 0; i += 16 {
		part := v[i:min(i+16, n)]
		comment := ""
		if i == 0 {
			comment = fmt.Sprintf(format, args...)
		}
		fmt.Fprintln(&d.out, strings.TrimRight(fmt.Sprintf("%4d  %-47s  %s", d.off+i, spaced(part), comment), " "))
	}
	d.off += n
	return v
}

func spaced(b []byte) string { return strings.TrimSpace(fmt.Sprintf("% x", b)) }

func (d *dumper) u16(name string) int {
	v := int(le.Uint16(d.b[d.off:]))
	d.field(2, "%s: %d", name, v)
	return v
}

func (d *dumper) u32(name string) int {
	v := int(le.Uint32(d.b[d.off:]))
	d.field(4, "%s: %d", name, v)
	return v
}

func (d *dumper) u64(name string) { d.field(8, "%s: %d", name, le.Uint64(d.b[d.off:])) }

func (d *dumper) record() {
	start := d.off
	word := le.Uint32(d.b[d.off:])
	size := int(word & 0x03ffffff)
	headers := word>>31 == 1
	d.field(4, "record size: %d, headers follow: %v", size, headers)
	d.topic()
	d.u64("seq")
	d.u64("time")
	if headers {
		n := d.u16("header bytes")
		end := d.off + n
		for d.off < end {
			key := int(d.field(1, "key length")[0])
			value := d.u16("value length")
			d.field(key, "key")
			d.field(value, "value")
		}
	}
	d.field(start+size-d.off, "payload")
	d.padding()
}

func (d *dumper) topic() {
	v := le.Uint32(d.b[d.off:])
	if v>>31 == 1 {
		d.field(4, "topic: new, index %d", v&0x7fffffff)
		return
	}
	d.field(4, "topic: %d", v)
}

func (d *dumper) padding() {
	if n := -d.off & 7; n > 0 {
		d.field(n, "padding")
	}
}

func (d *dumper) batch() {
	start := d.off
	end := start + d.u32("batch size")
	d.u32("count")
	d.field(16, "producer")
	d.u32("epoch")
	d.field(2, "flags: atomic %v", d.b[d.off]&1 == 1)
	pre := d.u16("preconditions")
	d.u64("number")
	d.u64("reserved")
	for range pre {
		d.topic()
		d.u32("reserved")
		d.u64("last seq")
	}
	for d.off < end {
		d.record()
	}
}

func (d *dumper) entryHeader() {
	d.field(4, "magic")
	d.field(1, "version")
	d.field(1, "kind: %s", Kind(d.b[d.off]))
	d.field(1, "codec: %s", Codec(d.b[d.off]))
	d.field(1, "reserved")
	d.field(4, "crc32c")
	d.u32("raw body size")
	d.u64("time")
	d.u64("proposer")
	d.u64("proposal")
	d.u64("reserved")
}

func (d *dumper) publishBody() {
	count := d.u32("new topics")
	table := len(d.b) - d.u32("table size")
	for d.off < table {
		d.batch()
	}
	for range count {
		n := d.u16("name length")
		d.field(n, "name: %q", d.b[d.off:d.off+n])
	}
	d.padding()
}

// TestGolden prints samples byte by byte: DESIGN.md draws the same.
func TestGolden(t *testing.T) {
	samples := map[string]func(d *dumper){
		"record": func(d *dumper) {
			d.b = mustRecord(t, nil, 7, nil, "hello")
			d.record()
		},
		"record-applied": func(d *dumper) {
			d.b = mustRecord(t, nil, 7, []Header{{"type", "greeting"}, {"k", ""}}, "hello")
			Stamp(d.b, 12, 100, 1_700_000_000_000_000_000)
			d.record()
		},
		"batch": func(d *dumper) {
			d.b = batchBytes(t)
			d.batch()
		},
		"entry": func(d *dumper) {
			d.b = entryBytes(t, CodecNone)
			d.entryHeader()
			d.publishBody()
		},
		"entry-compressed": func(d *dumper) {
			d.b = entryBytes(t, CodecS2)
			d.entryHeader()
			fmt.Fprintf(&d.out, "%4d  %d bytes of s2 for the raw body\n", d.off, len(d.b)-d.off)
			d.off = len(d.b)
		},
		"entry-small": func(d *dumper) {
			d.b = EncodeEntry(EntryHeader{Kind: KindCheckpoint, Time: 1, Proposer: 2, Proposal: 3}, []byte{9, 0, 0, 0, 0, 0, 0, 0})
			d.entryHeader()
			d.u64("checkpoint id")
		},
	}
	datadriven.RunTest(t, "testdata/golden", func(t *testing.T, td *datadriven.TestData) string {
		sample, ok := samples[td.Cmd]
		if !ok {
			t.Fatalf("no sample %q", td.Cmd)
		}
		var d dumper
		sample(&d)
		if d.off != len(d.b) {
			t.Fatalf("%s: %d of %d bytes are drawn", td.Cmd, d.off, len(d.b))
		}
		return d.out.String()
	})
}
