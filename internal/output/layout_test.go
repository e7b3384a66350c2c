package output

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestTableFitsItsWidth: the widest texts lose their middle, quantities and short cells nothing, and without a width all is whole.
func TestTableFitsItsWidth(t *testing.T) {
	long := "projects/" + strings.Repeat("deep/", 40) + "leaf"
	rows := [][]any{{"node-a", 1234567890123, long}, {"node-b", 7, "x"}}
	for width, want := range map[int][]string{0: {long}, 80: {"projects/", "…", "deep/leaf", "1234567890123", "node-a"}, 1: {"…", "1234567890123"}} {
		var out bytes.Buffer
		w := &Writer{Out: &out, Width: width}
		w.Table([]string{"node", "bytes", "prefixes"}, []int{1}, rows)
		for _, text := range want {
			if !strings.Contains(out.String(), text) {
				t.Errorf("width %d lacks %q:\n%s", width, text, out.String())
			}
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > 0 && n > max(width, leastWidth+cellMargins) {
				t.Errorf("width %d: a line of %d columns: %s", width, n, line)
			}
		}
		if fmt.Sprint(rows[0][2]) != long {
			t.Fatal("the caller's rows were changed")
		}
	}
}

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{{"abcdef", 6, "abcdef"}, {"abcdef", 5, "ab…ef"}, {"abcdef", 4, "ab…f"}, {"abcdef", 1, "…"}, {"", 1, ""}, {"äöüß", 3, "ä…ß"}, {"日本語", 5, "日…語"}, {"日本語", 4, "日…"}} {
		if got := Shorten(c.text, c.width); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

// TestWrapKeepsEveryWord: lines hold the words in their order, none is wider than it may be unless it is one word, and none could take the next.
func TestWrapKeepsEveryWord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[a-zä/]{1,30}`), 1, 40).Draw(t, "words")
		width := rapid.IntRange(1, 60).Draw(t, "width")
		lines := wrap(strings.Join(words, " "), width)
		if got := strings.Join(lines, " "); got != strings.Join(words, " ") {
			t.Fatalf("%q", got)
		}
		for i, line := range lines {
			if cellWidth(line) > width && strings.Contains(line, " ") {
				t.Fatalf("%q is wider than %d", line, width)
			}
			if i == 0 {
				continue
			}
			if first, _, _ := strings.Cut(line, " "); cellWidth(lines[i-1])+1+cellWidth(first) <= width {
				t.Fatalf("%q had room for %q", lines[i-1], first)
			}
		}
	})
}

func TestFieldsAndListsHang(t *testing.T) {
	var out bytes.Buffer
	w := &Writer{Out: &out, Width: 40}
	w.Fields([2]string{"health", "one two three four five six seven eight"}, [2]string{"id", "x"})
	w.List("problems", []string{"alpha beta gamma delta epsilon zeta eta theta", "short"})
	w.List("nothing", nil)
	want := `health  one two three four five six
        seven eight
id      x

problems:
  - alpha beta gamma delta epsilon zeta
    eta theta
  - short
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
}
