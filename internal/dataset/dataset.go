// Package dataset reads recorded streams: who published how much, when, on which topic, without the contents.
//
// The format is text, gzip or plain, one header line and then one message a line, sorted by time:
//
//	unix_seconds TAB topic TAB bytes
//
// It promises errors with line numbers, payloads that depend on the row number alone, and a counter that answers what a
// filter must deliver by looking at every row, without any of the broker's own code. A small sample of a real stream is
// built in. It does not publish: that is internal/load.
package dataset

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
)

// MaxBytes is the largest payload that a row may ask for.
const MaxBytes = 1 << 20

// Row is one message.
type Row struct {
	Number  uint64 // place in the file, from 1
	Seconds int64  // unix time
	Topic   []byte // valid until the next row is read
	Bytes   int    // of the payload, 0 to MaxBytes
}

// Reader reads rows in order. Not for concurrent use.
type Reader struct {
	name    string
	scan    *bufio.Scanner
	line    int // last line read, from 1
	row     uint64
	closers []io.Closer
}

// NewReader reads from r, gzip or plain; name is for messages.
func NewReader(name string, r io.Reader) (*Reader, error) {
	buffered := bufio.NewReaderSize(r, 256<<10)
	rd := &Reader{name: name}
	var in io.Reader = buffered
	if magic, err := buffered.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, fmt.Errorf("read dataset %s: %w", name, err)
		}
		in, rd.closers = z, append(rd.closers, z)
	}
	rd.scan = bufio.NewScanner(in)
	return rd, rd.header()
}

// Open reads the file at path; Close it afterwards.
func Open(path string) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read dataset: %w", err)
	}
	rd, err := NewReader(path, f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	rd.closers = append(rd.closers, f)
	return rd, nil
}

//go:embed sample.tsv.gz
var sample []byte

// SampleName is what messages call the built-in sample.
const SampleName = "built-in sample"

// OpenSample reads the built-in sample: 19,200 file changes of four public repositories.
func OpenSample() (*Reader, error) { return NewReader(SampleName, bytes.NewReader(sample)) }

// Close frees the file.
func (r *Reader) Close() error {
	var errs []error
	for _, c := range r.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

func (r *Reader) fail(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", r.name, max(r.line, 1), fmt.Errorf(format, args...))
}

func (r *Reader) header() error {
	text, err := r.next()
	switch {
	case err == io.EOF:
		return r.fail("empty: expected the header line unix_seconds TAB topic TAB bytes")
	case err != nil:
		return err
	}
	fields := bytes.Split(text, []byte{'\t'})
	if len(fields) != 3 || len(bytes.TrimLeft(fields[0], "0123456789")) == 0 {
		return r.fail("expected the header line unix_seconds TAB topic TAB bytes, found %.80q", text)
	}
	return nil
}

func (r *Reader) next() ([]byte, error) {
	if r.scan.Scan() {
		r.line++
		return r.scan.Bytes(), nil
	}
	if err := r.scan.Err(); err != nil {
		r.line++
		return nil, r.fail("%w", err)
	}
	return nil, io.EOF
}

// Next returns the next row; io.EOF after the last.
func (r *Reader) Next() (Row, error) {
	text, err := r.next()
	if err != nil {
		return Row{}, err
	}
	seconds, rest, ok1 := bytes.Cut(text, []byte{'\t'})
	name, size, ok2 := bytes.Cut(rest, []byte{'\t'})
	if !ok1 || !ok2 {
		return Row{}, r.fail("expected three fields separated by tabs, found %.80q", text)
	}
	r.row++
	row := Row{Number: r.row, Topic: name}
	if row.Seconds, err = strconv.ParseInt(string(seconds), 10, 64); err != nil {
		return Row{}, r.fail("unix_seconds: %.40q is not a whole number", seconds)
	}
	if row.Bytes, err = strconv.Atoi(string(size)); err != nil || row.Bytes < 0 || row.Bytes > MaxBytes {
		return Row{}, r.fail("bytes: %.40q is not a whole number from 0 to %d", size, MaxBytes)
	}
	if len(name) == 0 {
		return Row{}, r.fail("the topic is empty")
	}
	return row, nil
}

// ReadAll reads the rest of r into memory; the topics are the caller's.
func ReadAll(r *Reader) ([]Row, error) {
	var rows []Row
	names := map[string][]byte{}
	for {
		row, err := r.Next()
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		name, ok := names[string(row.Topic)]
		if !ok {
			name = bytes.Clone(row.Topic)
			names[string(name)] = name
		}
		row.Topic = name
		rows = append(rows, row)
	}
}
