package output

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
)

const (
	cellMargins = 2  // columns that a table puts around each cell
	leastCell   = 16 // a cell is not shortened further than to this width
	leastWidth  = 40 // of a terminal: on a narrower one the lines wrap
)

// width is how many columns a line may take; 0: any number, as what is no terminal gets everything whole.
func (w *Writer) width() int {
	width := w.Width
	if f, ok := w.Out.(*os.File); ok && width == 0 && term.IsTerminal(int(f.Fd())) {
		width, _, _ = term.GetSize(int(f.Fd())) // 0 if it does not say
	}
	if width <= 0 {
		return 0
	}
	return max(width, leastWidth)
}

// fit shortens cells until the rows are no wider than width, the widest column first. Columns in right, which are of quantities, stay
// whole. A table that cannot be made to fit stays wider.
func fit(header []string, right []int, rows [][]string, width int) {
	widths := make([]int, len(header))
	total := 0
	for c, h := range header {
		widths[c] = cellWidth(h)
		for _, row := range rows {
			widths[c] = max(widths[c], cellWidth(row[c]))
		}
		total += widths[c] + cellMargins
	}
	for ; total > width; total-- {
		widest := -1
		for c := range widths {
			if widths[c] > leastCell && !slices.Contains(right, c) && (widest < 0 || widths[c] > widths[widest]) {
				widest = c
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	for _, row := range rows {
		for c := range row {
			row[c] = Shorten(row[c], widths[c])
		}
	}
}

func cellWidth(s string) int { return text.StringWidth(s) }

// Shorten leaves out of the middle of a text what is beyond width columns: topics, prefixes and paths differ at both ends. Width is at
// least 1.
func Shorten(s string, width int) string {
	if cellWidth(s) <= width {
		return s
	}
	runes := []rune(s)
	head, tail := 0, len(runes)
	for left, front := width-1, true; head < tail; front = !front {
		r := runes[head]
		if !front {
			r = runes[tail-1]
		}
		if left -= text.RuneWidth(r); left < 0 {
			break
		}
		if front {
			head++
		} else {
			tail--
		}
	}
	return string(runes[:head]) + "…" + string(runes[tail:])
}

// wrap breaks a text between words into lines of at most width columns, 0 for any number. A word that is longer, such as a path, has a line of
// its own and stays whole.
func wrap(s string, width int) []string {
	if width <= 0 || cellWidth(s) <= width {
		return []string{s}
	}
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		switch {
		case line == "":
			line = word
		case cellWidth(line)+1+cellWidth(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	return append(lines, line)
}

// hang prints a text behind what stands at the beginning of its first line; further lines begin below the text.
func (w *Writer) hang(before, s string) {
	indent := cellWidth(before)
	room := 0
	if width := w.width(); width > 0 {
		room = max(width-indent, leastCell)
	}
	for i, line := range wrap(s, room) {
		if i > 0 {
			before = strings.Repeat(" ", indent)
		}
		fmt.Fprintf(w.Out, "%s%s\n", before, line)
	}
}

// List prints texts under a title, if there are any.
func (w *Writer) List(title string, items []string) {
	if len(items) == 0 {
		return
	}
	w.Printf("\n%s:", title)
	for _, item := range items {
		w.hang("  - ", item)
	}
}
