// Package output writes what commands have to say: tables for people, JSON for programs, progress on a terminal.
//
// It promises that data goes to standard output and all else to standard error, that JSON output is one object (or one
// per line for streams) and nothing besides, and that progress bars appear only on a terminal. It formats; it computes
// nothing.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Writer is where one command writes.
type Writer struct {
	Out, Err   io.Writer
	JSON       bool // objects for programs instead of tables for people
	NoProgress bool
}

// Object prints v as indented JSON.
func (w *Writer) Object(v any) error {
	enc := json.NewEncoder(w.Out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// Line prints v as one line of JSON.
func (w *Writer) Line(v any) error {
	enc := json.NewEncoder(w.Out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Printf prints a line of data for people.
func (w *Writer) Printf(format string, args ...any) {
	fmt.Fprintf(w.Out, format+"\n", args...)
}

// Note prints a line that is not data.
func (w *Writer) Note(format string, args ...any) {
	fmt.Fprintf(w.Err, format+"\n", args...)
}

// Table prints rows under a header. Columns whose cells are all numbers or quantities should be named in right.
func (w *Writer) Table(header []string, right []int, rows [][]any) {
	t := table.NewWriter()
	t.SetOutputMirror(w.Out)
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	names := make(table.Row, len(header))
	for i, h := range header {
		names[i] = h
	}
	t.AppendHeader(names)
	for _, row := range rows {
		t.AppendRow(row)
	}
	configs := make([]table.ColumnConfig, len(right))
	for i, column := range right {
		configs[i] = table.ColumnConfig{Number: column + 1, Align: text.AlignRight, AlignHeader: text.AlignRight}
	}
	t.SetColumnConfigs(configs)
	t.Render()
}

// Fields prints name and value, one pair a line, the values in one column.
func (w *Writer) Fields(pairs ...[2]string) {
	width := 0
	for _, p := range pairs {
		width = max(width, len(p[0]))
	}
	for _, p := range pairs {
		fmt.Fprintf(w.Out, "%-*s  %s\n", width, p[0], p[1])
	}
}

// Progress shows how much of total is done; total below 0 means unknown. It is silent unless Err is a terminal.
func (w *Writer) Progress(total int64, what string) *progressbar.ProgressBar {
	if w.NoProgress || !isTerminal(w.Err) {
		return progressbar.DefaultSilent(total, what)
	}
	return progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(w.Err),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionThrottle(100_000_000), // 100 ms
		progressbar.OptionClearOnFinish(),
		progressbar.OptionFullWidth(),
	)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
