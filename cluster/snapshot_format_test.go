package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	goflag "flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/internal/record"
)

var writeGolden = goflag.Bool("write", false, "write the golden files anew instead of comparing them")

// byteDump prints bytes field by field. It reads by itself, so that a change of a format shows.
type byteDump struct {
	b   []byte
	at  int
	out strings.Builder
}

func (d *byteDump) field(n int, name string) []byte {
	v := d.b[d.at : d.at+n]
	for i := 0; i < n; i += 16 {
		fmt.Fprintln(&d.out, strings.TrimRight(fmt.Sprintf("%4d  %-47s  %s", d.at+i, fmt.Sprintf("% x", v[i:min(i+16, n)]), name), " "))
		name = ""
	}
	d.at += n
	return v
}

func (d *byteDump) u32(name string) int {
	v := int(binary.LittleEndian.Uint32(d.b[d.at:]))
	d.field(4, fmt.Sprintf("%s: %d", name, v))
	return v
}

func (d *byteDump) u64(names ...string) {
	for _, name := range names {
		d.field(8, fmt.Sprintf("%s: %d", name, binary.LittleEndian.Uint64(d.b[d.at:])))
	}
}

func (d *byteDump) string(name string) {
	n := int(binary.LittleEndian.Uint16(d.b[d.at:]))
	d.field(2+n, fmt.Sprintf("%s: %s", name, d.b[d.at+2:d.at+2+n]))
}

func (d *byteDump) compare(t *testing.T, path string) {
	t.Helper()
	if d.at != len(d.b) {
		t.Errorf("%d bytes of %d are drawn", d.at, len(d.b))
	}
	if *writeGolden {
		mustDo(t, os.WriteFile(path, []byte(d.out.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	mustDo(t, err)
	if got := d.out.String(); got != string(want) {
		t.Errorf("%s differs, now it is\n%s", path, got)
	}
}

func TestManifestBytes(t *testing.T) {
	m := manifestOf(20)
	m.files = append(m.files, snapFile{name: "g-1.cnts", size: 1 << 40})
	d := byteDump{b: m.encode()}
	d.field(8, "magic")
	d.u32("version")
	d.u32("length")
	d.u64("index", "term", "config index", "seq", "first seq", "window", "window seq", "time", "state size")
	d.field(32, "SHA-256 of the state file")
	servers, files := d.u32("servers"), d.u32("files")
	d.string("cluster id")
	for range servers {
		d.field(1, "suffrage")
		d.string("id")
		d.string("address")
	}
	for range files {
		d.string("name")
		d.u64("size")
		d.field(32, "SHA-256")
	}
	d.field(4, "crc")
	d.compare(t, "testdata/manifest.txt")
}

// tailBytes is a tail of the records of some seqs and times.
func tailBytes(tb testing.TB, first uint64, times ...int64) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := tailWriter{&b}
	mustDo(tb, w.bounds(first, first+uint64(len(times))-1))
	var run []byte
	for i, at := range times {
		start := len(run)
		var err error
		run, err = record.AppendRecord(run, 0, nil, []byte(strings.Repeat("x", i)))
		mustDo(tb, err)
		record.Stamp(run[start:], 7, first+uint64(i), at)
	}
	mustDo(tb, errors.Join(w.block([][]byte{run}), w.end()))
	return b.Bytes()
}

func TestTailBytes(t *testing.T) {
	d := byteDump{b: tailBytes(t, 5, 100, 100, 101)}
	d.u64("first seq", "last seq")
	n := d.u32("bytes")
	d.field(4, "crc")
	d.field(n, "records")
	d.u32("bytes")
	d.compare(t, "testdata/tail.txt")

	var runs []string
	err := readTail(bytes.NewReader(d.b), 5, 7, 1000, func(run []byte, count int, seq uint64, time int64) error {
		runs = append(runs, fmt.Sprintf("%d from %d at %d in %d bytes", count, seq, time, len(run)))
		return nil
	})
	if got := strings.Join(runs, "; "); err != nil || got != "2 from 5 at 100 in 56 bytes; 1 from 7 at 101 in 32 bytes" {
		t.Errorf("%s, %v", got, err)
	}
	runs = nil
	err = readTail(bytes.NewReader(d.b), 5, 7, 30, func(_ []byte, count int, _ uint64, _ int64) error {
		runs = append(runs, fmt.Sprint(count))
		return nil
	})
	if got := strings.Join(runs, " "); err != nil || got != "1 1 1" {
		t.Errorf("in small pieces: %s, %v", got, err)
	}
}

// TestTailRefusesDamage: any bit that is wrong, any byte that is missing or too many is found.
func TestTailRefusesDamage(t *testing.T) {
	good := tailBytes(t, 5, 100, 100, 101)
	read := func(b []byte) error {
		return readTail(bytes.NewReader(b), 5, 7, 1000, func([]byte, int, uint64, int64) error { return nil })
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		if err := read(bad); !errors.Is(err, errSnapshotFormat) {
			t.Errorf("byte %d: %v", i, err)
		}
		if err := read(good[:i]); !errors.Is(err, errSnapshotFormat) {
			t.Errorf("cut at %d: %v", i, err)
		}
	}
	if err := read(append(bytes.Clone(good), 0)); !errors.Is(err, errSnapshotFormat) {
		t.Errorf("a byte too many: %v", err)
	}
	if err := read(tailBytes(t, 6, 1, 2)); !errors.Is(err, errSnapshotFormat) {
		t.Errorf("another tail: %v", err)
	}
	if err := read(good); err != nil {
		t.Error(err)
	}
}

func TestManifestRefusesDamage(t *testing.T) {
	good := manifestOf(20).encode()
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		if _, err := decodeSnapManifest(bad); !errors.Is(err, errSnapshotFormat) {
			t.Errorf("byte %d: %v", i, err)
		}
	}
	newer := bytes.Clone(good)
	binary.LittleEndian.PutUint32(newer[8:], snapshotFormat+1)
	binary.LittleEndian.PutUint32(newer[len(newer)-4:], crcOf(newer[:len(newer)-4]))
	if _, err := decodeSnapManifest(newer); !errors.Is(err, errNewerVersion) {
		t.Errorf("a newer version: %v", err)
	}
	for name, change := range map[string]func(*snapManifest){
		"no index":      func(m *snapManifest) { m.index, m.configIndex = 0, 0 },
		"no term":       func(m *snapManifest) { m.term = 0 },
		"config":        func(m *snapManifest) { m.configIndex = m.index + 1 },
		"window":        func(m *snapManifest) { m.windowSeq = m.seq + 1 },
		"window number": func(m *snapManifest) { m.window = 0 },
		"first":         func(m *snapManifest) { m.firstSeq = m.seq + 2 },
		"state":         func(m *snapManifest) { m.stateSize = 0 },
	} {
		m := manifestOf(20)
		change(m)
		if _, err := decodeSnapManifest(m.encode()); !errors.Is(err, errSnapshotFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if m, err := decodeSnapManifest(good); err != nil || m.id() != "s-3-20" || m.config.Servers[1].Suffrage != raft.Nonvoter {
		t.Errorf("%+v, %v", m, err)
	}
}

// FuzzSnapshotManifest: a manifest that is accepted is the one that its fields make.
func FuzzSnapshotManifest(f *testing.F) {
	f.Add(manifestOf(20).encode())
	f.Add((&snapManifest{index: 1, term: 1, firstSeq: 1, stateSize: 1}).encode())
	f.Add([]byte(snapshotMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		sealCRC(b)
		if m, err := decodeSnapManifest(b); err == nil && !bytes.Equal(m.encode(), b) {
			t.Fatalf("%x was read as %x", b, m.encode())
		}
	})
}

// sealCRC gives bytes the length and checksum of a manifest, so that fuzzing gets behind them.
func sealCRC(b []byte) {
	if len(b) < snapshotHeadSize {
		return
	}
	binary.LittleEndian.PutUint32(b[12:], uint32(len(b)))
	binary.LittleEndian.PutUint32(b[len(b)-4:], crcOf(b[:len(b)-4]))
}

// FuzzTail: whatever stands in a tail is refused, or is whole records in order.
func FuzzTail(f *testing.F) {
	f.Add(tailBytes(f, 5, 100, 100, 101), uint8(3))
	f.Add(tailBytes(f, 5), uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, n uint8) {
		if len(b) >= 24 {
			if size := int(binary.LittleEndian.Uint32(b[16:])); size < len(b)-24 {
				binary.LittleEndian.PutUint32(b[20:], crcOf(b[24:24+size]))
			}
		}
		next := uint64(5)
		err := readTail(bytes.NewReader(b), 5, 4+uint64(n), 1<<20, func(run []byte, count int, seq uint64, _ int64) error {
			if seq != next || record.ValidateRun(run, count) != nil {
				t.Fatalf("a run of %d from seq %d after %d: %x", count, seq, next, run)
			}
			next += uint64(count)
			return nil
		})
		if err == nil && next != 5+uint64(n) {
			t.Fatalf("ended before %d, want %d messages", next, n)
		}
	})
}
