package fsm

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestStateGolden prints a state field by field, so that a change of the format shows in the golden file. It decodes by itself.
func TestStateGolden(t *testing.T) {
	datadriven.RunTest(t, "testdata/golden/state.txt", func(t *testing.T, _ *datadriven.TestData) string {
		d := stateDump{t: t, b: stateBytes(t, exampleState(t))}
		d.field(8, "magic")
		d.u32("version")
		d.u32("crc32c")
		for section, dump := range []func(){d.head, d.topics, d.producers, d.windows, d.plans, d.digest} {
			fmt.Fprintf(&d.out, "section %d\n", section+1)
			d.field(8, "block of section %d, last: %d, bytes: %d", d.b[d.off], d.b[d.off+1], binary.LittleEndian.Uint32(d.b[d.off+4:]))
			dump()
			d.u32("crc32c")
		}
		if d.off != len(d.b) {
			t.Errorf("%d bytes are left", len(d.b)-d.off)
		}
		return d.out.String()
	})
}

type stateDump struct {
	t   *testing.T
	b   []byte
	off int
	out strings.Builder
}

// field prints the next n bytes with a comment.
func (d *stateDump) field(n int, format string, a ...any) []byte {
	p := d.b[d.off : d.off+n]
	comment := fmt.Sprintf(format, a...)
	for i := 0; i < n || i == 0; i += 16 {
		fmt.Fprintln(&d.out, strings.TrimRight(fmt.Sprintf("%5d  %-47x  %s", d.off+i, p[i:min(i+16, n)], comment), " "))
		comment = ""
	}
	d.off += n
	return p
}

func (d *stateDump) u32(name string) {
	d.field(4, "%s: %#x", name, binary.LittleEndian.Uint32(d.b[d.off:]))
}

func (d *stateDump) u64s(names ...string) {
	for _, name := range names {
		d.field(8, "%s: %d", name, binary.LittleEndian.Uint64(d.b[d.off:]))
	}
}

func (d *stateDump) uv(name string) int {
	v, n := binary.Uvarint(d.b[d.off:])
	d.field(n, "%s: %d", name, v)
	return int(v)
}

func (d *stateDump) text(name string) {
	n := d.uv("bytes of " + name)
	d.field(n, "%s: %q", name, d.b[d.off:d.off+n])
}

func (d *stateDump) head() {
	d.u64s("index", "seq", "time", "newest message's time", "stored bytes", "producer lease", "version", "window bytes", "window count", "window age")
	d.u32("topics at most")
	d.u32("producers at most")
	d.u64s("retained age", "retained bytes", "retained count")
	d.field(hashSize, "hash of the stream")
}

func (d *stateDump) topics() {
	nodes := d.uv("nodes")
	d.uv("topics")
	d.uv("partitions")
	for range d.uv("late partitions") {
		d.uv("number")
		d.uv("node")
	}
	for node := 1; node < nodes; {
		d.uv("parent is before by")
		depth := 1 + strings.Count(string(d.b[d.off+1:d.off+1+int(d.b[d.off])]), "/")
		d.text("rest of the name")
		for range depth {
			if d.uv(fmt.Sprintf("node %d: messages+1", node)) > 0 {
				d.uv("bytes")
				d.uv("last seq")
			}
			node++
		}
	}
}

func (d *stateDump) producers() {
	d.uv("epoch floor")
	for range d.uv("producers") {
		d.field(16, "id")
		d.uv("epoch")
		d.u64s("last used")
		d.uv("highest refused and forgotten")
		runs := d.uv("runs")
		if runs > 0 {
			d.uv("first number")
		}
		for range runs {
			d.field(1, "code: %v", Code(d.b[d.off]))
			d.uv("count")
			d.uv("place")
			d.uv("index")
		}
	}
}

func (d *stateDump) window() {
	d.u64s("window", "first seq", "last seq", "bytes", "first time", "last time")
}

func (d *stateDump) windows() {
	d.field(hashSize, "hash of the windows")
	d.window()
	for range d.uv("retained") {
		d.window()
	}
}

func (d *stateDump) plans() {
	d.field(hashSize, "hash of the plans")
	d.uv("last number")
	for range d.uv("generations") {
		n := d.uv("bytes of the plan")
		d.field(n, "the plan, as in an entry")
	}
}

func (d *stateDump) digest() {
	for range d.uv("parts") {
		d.text("name")
		d.text("value")
	}
}
