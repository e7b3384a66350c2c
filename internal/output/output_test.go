package output

import (
	"bytes"
	"strings"
	"testing"
)

func TestTableAlignsAndKeepsHeaders(t *testing.T) {
	var out bytes.Buffer
	w := &Writer{Out: &out}
	w.Table([]string{"topic", "messages"}, []int{1}, [][]any{{"a/b", "7"}, {"longer/topic", "12.3k"}})
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], "topic") || !strings.HasSuffix(strings.TrimRight(lines[1], " "), "    7") {
		t.Errorf("table:\n%s", out.String())
	}
}

func TestJSONIsAlone(t *testing.T) {
	var out, errs bytes.Buffer
	w := &Writer{Out: &out, Err: &errs, JSON: true}
	bar := w.Progress(10, "work")
	bar.Add(10)
	w.Note("a note")
	if err := w.Line(map[string]string{"topic": "a<b>&c"}); err != nil {
		t.Fatal(err)
	}
	if out.String() != "{\"topic\":\"a<b>&c\"}\n" || errs.String() != "a note\n" {
		t.Errorf("out %q, err %q", out.String(), errs.String())
	}
	out.Reset()
	if err := w.Object(map[string]int{"n": 1}); err != nil || out.String() != "{\n  \"n\": 1\n}\n" {
		t.Errorf("object %q, %v", out.String(), err)
	}
}

func TestFields(t *testing.T) {
	var out bytes.Buffer
	(&Writer{Out: &out}).Fields([2]string{"leader", "x"}, [2]string{"commit index", "7"})
	if out.String() != "leader        x\ncommit index  7\n" {
		t.Errorf("fields %q", out.String())
	}
}
