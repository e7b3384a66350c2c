package dataset

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
)

const good = "unix_seconds\ttopic\tbytes\n10\ta/b\t3\n11\ta/b c/d\t0\n"

func readString(t *testing.T, text string) ([]Row, error) {
	t.Helper()
	r, err := NewReader("f.tsv", strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	return ReadAll(r)
}

func TestReadPlainAndGzip(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	io.WriteString(z, good)
	z.Close()
	for name, content := range map[string]string{"plain": good, "gzip": zipped.String(), "without a last newline": strings.TrimSuffix(good, "\n")} {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := ReadAll(r)
		if err != nil || len(rows) != 2 {
			t.Fatalf("%s: %d rows, %v", name, len(rows), err)
		}
		second := rows[1]
		if second.Number != 2 || second.Seconds != 11 || string(second.Topic) != "a/b c/d" || second.Bytes != 0 || string(rows[0].Topic) != "a/b" {
			t.Errorf("%s: read %+v", name, rows)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestErrorsNameTheLine(t *testing.T) {
	const header = "unix_seconds\ttopic\tbytes\n"
	for text, want := range map[string]string{
		"":                                   "f.tsv:1: empty",
		"10\ta/b\t3\n":                       "f.tsv:1: expected the header line",
		"a,b,c\n":                            "f.tsv:1: expected the header line",
		header + "10 a/b 3\n":                "f.tsv:2: expected three fields",
		header + "10\ta\t1\nx\ta\t1":         "f.tsv:3: unix_seconds: \"x\"",
		header + "10\ta\t-1\n":               "f.tsv:2: bytes: \"-1\"",
		header + "10\ta\t1048577\n":          "f.tsv:2: bytes: \"1048577\"",
		header + "10\ta\t1\t2\n":             "f.tsv:2: bytes: \"1\\t2\"",
		header + "10\t\t1\n":                 "f.tsv:2: the topic is empty",
		header + strings.Repeat("x", 70_000): "f.tsv:2: bufio.Scanner: token too long",
		"\x1f\x8bnot gzip":                   "read dataset f.tsv: gzip",
	} {
		_, err := readString(t, text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: error %v, want one with %q", text, err, want)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func TestSample(t *testing.T) {
	r, err := OpenSample()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	partitions, deepest, last := map[string]bool{}, 0, int64(0)
	for _, row := range rows {
		segments := strings.Split(string(row.Topic), "/")
		partitions[strings.Join(segments[:min(2, len(segments))], "/")] = true
		deepest = max(deepest, len(segments))
		if row.Seconds < last {
			t.Fatalf("row %d is older than the one before", row.Number)
		}
		last = row.Seconds
	}
	if len(rows) != 19_200 || len(partitions) < 100 || deepest < 10 || len(sample) > 200<<10 {
		t.Errorf("sample: %d rows, %d partitions, depth %d, %d bytes packed", len(rows), len(partitions), deepest, len(sample))
	}
}

func TestPayloads(t *testing.T) {
	for kind, compresses := range map[PayloadKind]bool{Text: true, Random: false} {
		for _, size := range []int{0, 1, 7, 8, 9, 128, 5000} {
			a, b := kind.AppendPayload(nil, 7, size), kind.AppendPayload([]byte("x"), 7, size)
			if len(a) != size || !bytes.Equal(a, b[1:]) {
				t.Errorf("%s: %d bytes of %d, or not the same twice", kind, len(a), size)
			}
		}
		a := kind.AppendPayload(nil, 1, 100_000)
		if bytes.Equal(a, kind.AppendPayload(nil, 2, 100_000)) {
			t.Errorf("%s: rows 1 and 2 are equal", kind)
		}
		packed := len(s2.Encode(nil, a))
		if got := packed < len(a)*6/10; got != compresses {
			t.Errorf("%s: 100000 bytes packed to %d", kind, packed)
		}
	}
	// Payloads are part of the file format: other programs check against them.
	if got := string(Text.AppendPayload(nil, 1, 40)); got != "nil size != log.time message  for key (c" {
		t.Errorf("text of row 1 is now %q", got)
	}
	if _, err := ParsePayloadKind("zeros"); err == nil {
		t.Error("kind zeros accepted")
	}
}

func TestCountMatches(t *testing.T) {
	rows, err := readString(t, good+"12\ta/bc\t5\n13\ta\t7\n14\ta/b/c/d\t9\n")
	if err != nil {
		t.Fatal(err)
	}
	for filters, want := range map[string]Count{
		"**":              {5, 24},
		"a/**":            {5, 24},
		"a/b/**":          {2, 12},
		"a/b":             {1, 3},
		"a/b a/b/** a/bc": {3, 17},
		"b/**":            {0, 0},
		"a":               {1, 7},
	} {
		if got := CountMatches(rows, strings.Fields(filters)); got != want {
			t.Errorf("%s: %+v, want %+v", filters, got, want)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("\x1f\x8b\x08\x00"))
	f.Add([]byte("h\th\th\n9223372036854775808\ta\t1\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		r, err := NewReader("f", bytes.NewReader(content))
		if err != nil {
			return
		}
		rows, _ := ReadAll(r)
		for i, row := range rows {
			if row.Number != uint64(i+1) || row.Bytes < 0 || row.Bytes > MaxBytes || len(row.Topic) == 0 {
				t.Fatalf("accepted %+v", row)
			}
		}
	})
}
