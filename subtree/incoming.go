package subtree

import (
	"fmt"
	"path/filepath"

	"github.com/cantus-bus/cantus/internal/vfs"
)

// Incoming is a file that is being received: Write its bytes from Have on, in order, then Commit. One goroutine's. What is
// wrong with the bytes is a *CorruptError with Op "receive", which says something about the peer, not about this node's
// files; it does not count as damage.
type Incoming struct {
	s    *Store
	f    *file
	h    vfs.File // nil: nothing more to write; see complete
	have int64
	// complete says that the file was here when Receive was called, or was committed.
	complete bool
}

// Receive begins to take in a file, or goes on where an earlier attempt has stopped, before a restart too. ErrReceiving if
// it is being received already. Of a file that is here whole already Have is all.
func (s *Store) Receive(m Meta) (*Incoming, error) {
	in, err := s.receive(m)
	if err != nil {
		return nil, fmt.Errorf("subtree: receive %s: %w", m.Name(), err)
	}
	return in, nil
}

func (s *Store) receive(m Meta) (*Incoming, error) {
	f := newFile(s, m)
	if rule := m.validate(); rule != "" {
		return nil, f.corrupt("receive", 0, rule, nil)
	}
	s.incoming.Lock()
	defer s.incoming.Unlock()
	if here, err := s.startReceiving(&m); here || err != nil {
		return &Incoming{s: s, f: f, have: m.Size, complete: true}, err
	}
	h, have, err := s.openPart(f)
	if err != nil {
		s.stopReceiving(m.SHA256)
		return nil, err
	}
	return &Incoming{s: s, f: f, h: h, have: have}, nil
}

func (s *Store) startReceiving(m *Meta) (here bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.closed:
		return false, ErrClosed
	case s.ownLocked(m) != nil || s.isReceived(m):
		return true, nil
	case s.mu.receive[m.SHA256]:
		return false, ErrReceiving
	}
	s.mu.receive[m.SHA256] = true
	return false, nil
}

func (s *Store) stopReceiving(sum fileSum) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.receive, sum)
}

// openPart opens what is here of a file. Bytes that cannot be its beginning are dropped.
func (s *Store) openPart(f *file) (vfs.File, int64, error) {
	if err := s.fs.MkdirAll(filepath.Join(s.dir, incomingDir)); err != nil {
		return nil, 0, err
	}
	path := s.incomingPath(f.meta.SHA256, partSuffix)
	h, err := s.fs.OpenAppend(path)
	if err != nil {
		return nil, 0, err
	}
	have, err := h.Size()
	if err == nil && have <= f.meta.Size && (have < headerSize || f.checkHeader("receive", h) == nil) {
		return h, have, nil
	}
	_ = h.Close()
	if err == nil {
		h, err = s.fs.Create(path)
	}
	return h, 0, err
}

// Have is how many of the file's bytes are here: the next Write goes on there.
func (in *Incoming) Have() int64 { return in.have }

// Write takes the next bytes. A *CorruptError if there are too many, then none of them is taken, or if they cannot be the
// file's, then all that is here is thrown away. After an error of the disk, say a full one, Have tells how far it came, and
// Write may be called again.
func (in *Incoming) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if int64(len(b)) > in.f.meta.Size-in.have {
		return 0, in.f.corrupt("receive", in.f.meta.Size, fmt.Sprintf("more bytes come than the file's %d", in.f.meta.Size), nil)
	}
	if in.h == nil {
		return 0, fmt.Errorf("subtree: receive %s: %w", in.f.name, ErrClosed)
	}
	before := in.have
	n, err := in.h.Write(b)
	in.have += int64(n)
	if before < headerSize && in.have >= headerSize {
		if wrong := in.f.checkHeader("receive", in.h); wrong != nil {
			return n, in.refuse(wrong)
		}
	}
	if err != nil {
		return n, fmt.Errorf("subtree: receive %s at byte %d: %w", in.f.name, in.have, err)
	}
	return n, nil
}

// refuse throws the bytes away.
func (in *Incoming) refuse(wrong error) error {
	_ = in.Discard()
	return wrong
}

// Commit makes the bytes durable and checks them: size, SHA-256, and that header and footer say what the description says.
// The file counts as received then, after a restart too, and waits for Install. If bytes are missing they may still come; if
// they are wrong they are thrown away.
func (in *Incoming) Commit() error {
	switch {
	case in.complete:
		return nil
	case in.h == nil:
		return fmt.Errorf("subtree: receive %s: %w", in.f.name, ErrClosed)
	case in.have < in.f.meta.Size:
		return in.f.corrupt("receive", in.have, fmt.Sprintf("the bytes end early: the file has %d", in.f.meta.Size), nil)
	}
	if err := in.h.Sync(); err != nil {
		return fmt.Errorf("subtree: receive %s: %w", in.f.name, err)
	}
	err := in.f.checkSum("receive", in.h)
	if err == nil {
		if _, wrong := in.f.readFooter(in.h); wrong != nil {
			wrong.Op = "receive"
			err = wrong
		}
	}
	if err != nil {
		return in.refuse(err)
	}
	if err := in.keep(); err != nil {
		return fmt.Errorf("subtree: receive %s: %w", in.f.name, err)
	}
	return nil
}

// keep gives the part its name as a whole file. If a crash undoes that, it is a part again, and whole.
func (in *Incoming) keep() error {
	s, sum := in.s, in.f.meta.SHA256
	s.incoming.Lock()
	defer s.incoming.Unlock()
	if err := s.fs.Rename(s.incomingPath(sum, partSuffix), s.incomingPath(sum, fileSuffix)); err != nil {
		return err
	}
	s.mu.Lock()
	s.mu.received[sum] = &received{size: in.f.meta.Size, checked: true}
	s.mu.Unlock()
	err := in.close()
	in.complete = err == nil
	if err == nil {
		err = s.fs.SyncDir(filepath.Join(s.dir, incomingDir))
	}
	if err == nil {
		err = s.fs.SyncDir(s.dir) // the folder's own name
	}
	return err
}

// close lets the handle go.
func (in *Incoming) close() error {
	if in.h == nil {
		return nil
	}
	err := in.h.Close()
	in.h = nil
	in.s.stopReceiving(in.f.meta.SHA256)
	return err
}

// Discard throws the bytes away. After Commit or Close it does nothing.
func (in *Incoming) Discard() error {
	if in.h == nil {
		return nil
	}
	in.s.incoming.Lock()
	defer in.s.incoming.Unlock()
	_ = in.close()
	in.have = 0
	if err := in.s.fs.Remove(in.s.incomingPath(in.f.meta.SHA256, partSuffix)); err != nil {
		return fmt.Errorf("subtree: discard %s: %w", in.f.name, err)
	}
	return nil
}

// Close keeps what is here for a later Receive. After Commit or Discard it does nothing.
func (in *Incoming) Close() error {
	if err := in.close(); err != nil {
		return fmt.Errorf("subtree: receive %s: %w", in.f.name, err)
	}
	return nil
}
