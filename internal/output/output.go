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
	"sync"
	"time"

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
	Width      int // columns of a line for people; 0: those of the terminal if Out is one, else any number
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

// Table prints rows under a header, each with as many cells. Columns whose cells are all numbers or quantities should be named in right. If
// lines have a width, long cells of other columns lose their middle so that rows fit.
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
	for _, row := range w.cells(header, right, rows) {
		t.AppendRow(row)
	}
	configs := make([]table.ColumnConfig, len(right))
	for i, column := range right {
		configs[i] = table.ColumnConfig{Number: column + 1, Align: text.AlignRight, AlignHeader: text.AlignRight}
	}
	t.SetColumnConfigs(configs)
	t.Render()
}

// cells are the rows as they are shown.
func (w *Writer) cells(header []string, right []int, rows [][]any) []table.Row {
	texts := make([][]string, len(rows))
	for i, row := range rows {
		for _, cell := range row {
			texts[i] = append(texts[i], fmt.Sprint(cell))
		}
	}
	if width := w.width(); width > 0 {
		fit(header, right, texts, width)
	}
	shown := make([]table.Row, len(rows))
	for i, row := range texts {
		for _, cell := range row {
			shown[i] = append(shown[i], cell)
		}
	}
	return shown
}

// Fields prints name and value, one pair a line, the values in one column. If lines have a width, values wrap inside that column.
func (w *Writer) Fields(pairs ...[2]string) {
	width := 0
	for _, p := range pairs {
		width = max(width, len(p[0]))
	}
	for _, p := range pairs {
		w.hang(fmt.Sprintf("%-*s  ", width, p[0]), p[1])
	}
}

// Bar shows progress on a terminal, or nothing. Any number of goroutines may use it.
type Bar struct {
	mu  sync.Mutex
	bar *progressbar.ProgressBar // nil: silent
}

// Progress starts a bar; total below 0 means unknown. It is silent unless Err is a terminal.
func (w *Writer) Progress(total int64, what string) *Bar { return w.progress(total, what) }

// ProgressBytes starts a bar of bytes, whose total is told with Set.
func (w *Writer) ProgressBytes(what string) *Bar {
	return w.progress(-1, what, progressbar.OptionShowBytes(true), progressbar.OptionUseIECUnits(true))
}

func (w *Writer) progress(total int64, what string, more ...progressbar.Option) *Bar {
	if w.NoProgress || !isTerminal(w.Err) {
		return &Bar{}
	}
	return &Bar{bar: progressbar.NewOptions64(total, append([]progressbar.Option{
		progressbar.OptionSetWriter(w.Err),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionFullWidth(),
	}, more...)...)}
}

// Add moves the bar on. A terminal that cannot be written to is no reason to stop the work.
func (b *Bar) Add(n int64) {
	if b.bar == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.bar.Add64(n)
}

// Set moves the bar to done of total.
func (b *Bar) Set(done, total int64) {
	if b.bar == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bar.GetMax64() != total {
		b.bar.ChangeMax64(total)
	}
	_ = b.bar.Set64(done)
}

// Finish removes the bar.
func (b *Bar) Finish() {
	if b.bar == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.bar.Finish()
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
