package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// all reads a source to its end.
func all(t *testing.T, s Source) (list []Event) {
	t.Helper()
	for e, err := range s.Events() {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

// TestEveryKindSurvivesItsLine fills every field of every kind: one without a tag of its own would be lost.
func TestEveryKindSurvivesItsLine(t *testing.T) {
	for kind, empty := range kinds {
		e := empty()
		if e.Kind() != kind {
			t.Errorf("%s makes %s", kind, e.Kind())
		}
		fill(reflect.ValueOf(e).Elem())
		for _, e := range []Event{e, empty()} {
			line, err := Append(nil, e)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Parse(line)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if !reflect.DeepEqual(got, e) {
				t.Errorf("%s: read %+v, wrote %+v", line, got, e)
			}
		}
	}
}

// fill puts something into every field.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1700000000, 5).UTC()))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), reflect.ValueOf("value"))
	case reflect.String:
		v.SetString(`é "\<text>`)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint64, reflect.Uint32:
		v.SetUint(1<<32 - 3)
	default:
		v.SetInt(-7)
	}
}

// TestDeliveryLine compares the hand-written encoder with the library's.
func TestDeliveryLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Delivery{
			At: time.Duration(rapid.Int64().Draw(t, "at")), Reader: rapid.Int().Draw(t, "reader"),
			Seq: rapid.Uint64().Draw(t, "seq"), Prev: rapid.Uint64Range(0, 3).Draw(t, "prev"),
			Topic: rapid.StringN(0, 20, 40).Draw(t, "topic"), ID: rapid.Uint64().Draw(t, "id"),
			Time: rapid.Int64Range(-1, 1).Draw(t, "time"), Disk: rapid.Bool().Draw(t, "disk"),
		}
		body, err := json.Marshal(&d)
		if err != nil {
			t.Fatal(err)
		}
		want := `{"k":"dlv",` + string(body[1:]) + "\n"
		if got := appendDelivery(nil, &d); string(got) != want {
			t.Fatalf("%s, want %s", got, want)
		}
	})
}

func TestManyWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	w, err := Create(path, Header{Seed: 7, Workload: "stream", Nodes: []string{"n1", "n2", "n3"}})
	if err != nil {
		t.Fatal(err)
	}
	const writers, each = 8, 2000
	var wg sync.WaitGroup
	for r := range writers {
		wg.Go(func() {
			for s := range uint64(each) {
				w.Write(&Delivery{At: w.Now(), Reader: r, Seq: s + 1, Topic: "a/b", ID: w.NextID()})
			}
		})
	}
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w.Write(&Note{Text: "late"})
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if h := f.Header(); h.Seed != 7 || h.Format != FormatVersion || len(h.Nodes) != 3 || h.Started.IsZero() {
		t.Errorf("header %+v", h)
	}
	for range 2 {
		list := all(t, f)
		end, ok := list[len(list)-1].(*End)
		if !ok || end.Events != writers*each || len(list) != writers*each+1 {
			t.Fatalf("%d events, the last %+v", len(list), list[len(list)-1])
		}
		next, ids := map[int]uint64{}, map[uint64]bool{}
		for _, e := range list[:len(list)-1] {
			d := e.(*Delivery)
			next[d.Reader]++
			ids[d.ID] = true
			if d.Seq != next[d.Reader] {
				t.Fatalf("reader %d: seq %d at place %d", d.Reader, d.Seq, next[d.Reader])
			}
		}
		if len(ids) != writers*each || ids[0] {
			t.Fatalf("%d ids", len(ids))
		}
	}
}

// TestCutFile cuts a file at every byte: what was whole is read, without an error and without an End.
func TestCutFile(t *testing.T) {
	var buf bytes.Buffer
	for _, e := range []Event{&Header{Format: FormatVersion}, &Note{Text: "one"}, &Delivery{Seq: 2, Topic: "a", ID: 1}, &End{Events: 2}} {
		line, err := Append(nil, e)
		if err != nil {
			t.Fatal(err)
		}
		buf.Write(line)
	}
	path := filepath.Join(t.TempDir(), "h")
	whole := buf.Bytes()
	for size := range len(whole) + 1 {
		if err := os.WriteFile(path, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		lines := bytes.Count(whole[:size], []byte("\n"))
		f, err := Open(path)
		if lines == 0 {
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("%d bytes: %v", size, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := len(all(t, f)); got != lines-1 {
			t.Fatalf("%d bytes: %d events of %d lines", size, got, lines)
		}
	}
}

func TestBadLineIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h")
	text := `{"k":"header","format":1}` + "\n" + `{"k":"note","at":1,"text":"x"}` + "\n" + `{"k":"nonsense"}` + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var last error
	for _, err := range f.Events() {
		last = err
	}
	if !errors.Is(last, ErrFormat) || !strings.Contains(last.Error(), "line 3") || !strings.Contains(last.Error(), "nonsense") {
		t.Errorf("%v", last)
	}
}

type badDisk struct{ left int }

func (d *badDisk) Write(b []byte) (int, error) {
	if d.left -= len(b); d.left < 0 {
		return 0, os.ErrInvalid
	}
	return len(b), nil
}

func (d *badDisk) Close() error { return nil }

func TestWriteErrorIsKept(t *testing.T) {
	w, err := NewWriter(&badDisk{left: 1000}, Header{})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		w.Write(&Note{Text: strings.Repeat("x", 100)})
	}
	if err := w.Flush(); !errors.Is(err, os.ErrInvalid) {
		t.Errorf("flush: %v", err)
	}
	if err := w.Close(); !errors.Is(err, os.ErrInvalid) {
		t.Errorf("close: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func TestPayload(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, value, size := rapid.Uint64().Draw(t, "id"), rapid.Int64().Draw(t, "value"), rapid.IntRange(0, 100).Draw(t, "size")
		b := AppendPayload([]byte("before"), id, value, size)[len("before"):]
		if len(b) != max(size, MinPayload) {
			t.Fatalf("%d bytes", len(b))
		}
		gotID, gotValue, err := ParsePayload(b)
		if err != nil || gotID != id || gotValue != value {
			t.Fatalf("%d %d %v", gotID, gotValue, err)
		}
		b[rapid.IntRange(0, len(b)-1).Draw(t, "flip")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, _, err := ParsePayload(b); !errors.Is(err, ErrPayload) {
			t.Fatalf("a flipped bit: %v", err)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"k":"dlv","at":1,"r":2,"s":3,"t":"a","id":4}`))
	f.Add([]byte(`{"k":"pub","m":[{"id":1,"t":"a"}],"o":"ok"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := Parse(line)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		again, err := Append(nil, e)
		if err != nil {
			t.Skip(err) // a date that JSON cannot write
		}
		if _, err := Parse(again); err != nil {
			t.Fatalf("%s: %v", again, err)
		}
	})
}

func BenchmarkWriteDelivery(b *testing.B) {
	w, err := Create(filepath.Join(b.TempDir(), "h"), Header{})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	b.ReportAllocs()
	for i := range b.N {
		w.Write(&Delivery{At: time.Duration(i) * 1000, Reader: 3, Seq: uint64(i), Topic: "app/codestore/commits", ID: uint64(i)})
	}
}

func BenchmarkParseDelivery(b *testing.B) {
	line, _ := Append(nil, &Delivery{At: 123456789012, Reader: 3, Seq: 1234567, Topic: "app/codestore/commits", ID: 1234567})
	b.ReportAllocs()
	for range b.N {
		if _, err := Parse(line); err != nil {
			b.Fatal(err)
		}
	}
}
