package wire

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
		part := strings.TrimSpace(fmt.Sprintf("% x", v[i:min(i+16, n)]))
		comment := ""
		if i == 0 {
			comment = fmt.Sprintf(format, args...)
		}
		fmt.Fprintln(&d.out, strings.TrimRight(fmt.Sprintf("%4d  %-47s  %s", d.off+i, part, comment), " "))
	}
	d.off += n
	return v
}

// number prints a little-endian number of n bytes and returns it.
func (d *dumper) number(n int, name string) int {
	v := uint64(0)
	for i := range n {
		v |= uint64(d.b[d.off+i]) << (8 * i)
	}
	d.field(n, "%s: %d", name, v)
	return int(v)
}

// str prints a length and so many bytes.
func (d *dumper) str(name string) {
	n := d.number(2, name+" length")
	d.field(n, "%s: %q", name, d.b[d.off:d.off+n])
}

// fields prints a layout: "u8 name", "u16 name", ... "string name", "zero n", "bytes n name".
func (d *dumper) fields(layout ...string) {
	sizes := map[string]int{"u8": 1, "u16": 2, "u32": 4, "u64": 8}
	for _, l := range layout {
		kind, name, _ := strings.Cut(l, " ")
		var n int
		if _, err := fmt.Sscanf(kind, "zero%d", &n); err == nil {
			d.field(n, "reserved")
		} else if _, err := fmt.Sscanf(kind, "bytes%d", &n); err == nil {
			d.field(n, "%s", name)
		} else if kind == "string" {
			d.str(name)
		} else {
			d.number(sizes[kind], name)
		}
	}
}

func (d *dumper) code() {
	d.field(2, "code: %s", Code(le.Uint16(d.b[d.off:])))
}

func (d *dumper) header() {
	d.number(4, "size")
	d.field(1, "magic")
	d.field(1, "type: %s", Type(d.b[d.off]))
	d.number(2, "flags")
	d.number(4, "id")
	d.field(4, "crc32c")
}

func (d *dumper) topology() {
	d.fields("u64 term", "string cluster id", "string leader id")
	for range d.number(2, "nodes") {
		d.field(1, "flags: voter %v, alive %v", d.b[d.off]&1 == 1, d.b[d.off]&2 == 2)
		d.fields("string id", "string client address", "string HTTP address")
	}
}

func (d *dumper) items(n int, layout ...string) {
	for range n {
		d.fields(layout...)
	}
}

// body prints the body of a frame of a type.
func (d *dumper) body(t Type) {
	switch t {
	case THello:
		d.fields("u16 min version", "u16 max version", "u8 role", "zero3", "u32 heartbeat_ms", "string cluster id", "string client", "string credentials")
	case TWelcome:
		d.fields("u16 version", "zero2", "u32 heartbeat_ms", "u32 max frame", "u32 max inflight", "u64 first seq", "u64 last seq", "string node id")
		d.topology()
	case TTopology:
		d.topology()
	case TDefineTopics:
		d.number(4, "first alias")
		n := d.number(2, "names")
		d.field(2, "reserved")
		d.items(n, "string name")
	case TOpenProducer:
		d.field(16, "producer")
	case TProducerOpened:
		d.code()
		d.fields("zero2", "u32 epoch", "u64 detail", "u64 last number", "u64 last seq")
	case TPublish:
		d.field(len(d.b)-d.off, "one batch, as drawn in internal/record")
	case TAck:
		d.code()
		d.fields("u16 index", "u32 count", "u64 first seq", "u64 time", "u64 detail")
	case TSubscribe:
		d.fields("u8 start kind", "zero1")
		n := d.number(2, "filters")
		d.fields("u32 wait_ms", "u64 value", "u64 prev", "u64 min seq", "u64 credit")
		d.items(n, "string filter")
	default:
		d.answer(t)
	}
}

func (d *dumper) answer(t Type) {
	switch t {
	case TSubscribed:
		d.fields("u64 next", "u64 head", "u64 oldest")
	case TCredit:
		d.fields("u64 bytes")
	case TTopicNames:
		n := d.number(2, "names")
		d.field(6, "reserved")
		d.items(n, "u32 id", "string name")
	case TData:
		d.fields("u64 prev", "u32 count", "zero4")
		d.field(len(d.b)-d.off, "records, as drawn in internal/record")
	case TProgress, TCaughtUp:
		d.fields("u64 seq")
	case TQuery:
		d.fields("u8 kind", "u8 linearizable")
		n := d.number(2, "filters")
		d.fields("u32 wait_ms", "u64 seq", "u64 min seq", "u64 after", "u32 count", "u32 bytes")
		d.items(n, "string filter")
	case TAnswer:
		d.fields("u64 seq", "u64 next")
		n := d.number(4, "count")
		d.field(d.number(4, "bytes of the records"), "records, as drawn in internal/record")
		d.items(n, "string topic")
	case TEnded, TError:
		d.code()
		d.fields("zero6", "u64 detail", "string message")
	}
}

// TestGolden prints a frame of every type byte by byte: DESIGN.md draws the same.
func TestGolden(t *testing.T) {
	all := map[string]sample{}
	for _, s := range samples() {
		all[s.name] = s
	}
	shown := map[Type]bool{}
	datadriven.RunTest(t, "testdata/golden", func(t *testing.T, td *datadriven.TestData) string {
		s, ok := all[td.Cmd]
		if !ok {
			t.Fatalf("no sample %q", td.Cmd)
		}
		shown[s.t] = true
		d := dumper{b: s.frame}
		d.header()
		d.body(s.t)
		if d.off != len(d.b) {
			t.Fatalf("%s: %d of %d bytes are drawn", td.Cmd, d.off, len(d.b))
		}
		return d.out.String()
	})
	for ty := THello; ty <= TAnswer; ty++ {
		if !shown[ty] {
			t.Errorf("no golden sample of a %s", ty)
		}
	}
}
