package subtree

import (
	"crypto/sha256"
	"hash"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
)

const writeBuffer = 256 << 10

// fileWriter writes one file from its beginning to its end, under its temporary name.
//
// Invariant: off is the number of bytes handed to write; hash has seen all of them, the file all but buf.
type fileWriter struct {
	fs     vfs.FS
	path   string // final
	f      vfs.File
	buf    []byte
	off    uint64
	hash   hash.Hash
	meta   Meta
	footer footer
}

// createFile begins a file with its header. meta has kind, number and ranges.
func createFile(fs vfs.FS, path string, meta Meta) (*fileWriter, error) {
	f, err := fs.Create(path + tempSuffix)
	if err != nil {
		return nil, err
	}
	w := &fileWriter{fs: fs, path: path, f: f, hash: sha256.New(), meta: meta, buf: make([]byte, 0, writeBuffer)}
	if err := w.write(encodeHeader(&meta)); err != nil {
		w.abort()
		return nil, err
	}
	return w, nil
}

func (w *fileWriter) write(b []byte) error {
	w.hash.Write(b)
	w.off += uint64(len(b))
	if len(w.buf)+len(b) > cap(w.buf) {
		if err := w.flush(); err != nil {
			return err
		}
		if len(b) >= cap(w.buf) {
			_, err := w.f.Write(b)
			return err
		}
	}
	w.buf = append(w.buf, b...)
	return nil
}

func (w *fileWriter) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	_, err := w.f.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}

// add notes a partition that was written.
func (w *fileWriter) add(p partition) {
	w.footer.partitions = append(w.footer.partitions, p)
	w.footer.sections = append(w.footer.sections, p.sections...)
	for i := range p.sections {
		w.footer.bytes += p.sections[i].bytes
	}
}

// finish writes footer and tail, makes the file durable under its temporary name and returns what the manifest says of it.
func (w *fileWriter) finish() (Meta, error) {
	foot := w.footer.encode()
	t := tail{offset: w.off, size: uint64(len(foot)), footerCRC: checksum(foot)}
	err := w.write(foot)
	if err == nil {
		err = w.write(t.encode())
	}
	if err == nil {
		err = w.flush()
	}
	if err == nil {
		err = w.f.Sync()
	}
	if err != nil {
		w.abort()
		return Meta{}, err
	}
	m := w.meta
	m.FirstTime, m.LastTime, m.Bytes, m.MaxTopic = w.footer.firstTime, w.footer.lastTime, w.footer.bytes, w.footer.maxTopic
	m.Size, m.FooterCRC = int64(w.off), t.footerCRC
	w.hash.Sum(m.SHA256[:0])
	if err := w.f.Close(); err != nil {
		_ = w.fs.Remove(w.path + tempSuffix)
		return Meta{}, err
	}
	return m, nil
}

// abort gives the file up.
func (w *fileWriter) abort() {
	_ = w.f.Close()
	_ = w.fs.Remove(w.path + tempSuffix)
}

// sawTopic keeps the highest topic number.
func (w *fileWriter) sawTopic(id topic.ID) { w.footer.maxTopic = max(w.footer.maxTopic, id) }
