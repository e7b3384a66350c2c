package subtree

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/cantus-bus/cantus/internal/vfs"
)

// Files from elsewhere come through a folder of their own, and are named by their SHA-256 there, in hex:
//
//	incoming/<sha256>.part   the first bytes of the file, as many as are here
//	incoming/<sha256>.cnts   all of it, durable and checked: Install moves it to its name
const (
	incomingDir = "incoming"
	partSuffix  = ".part"
)

type fileSum = [sha256.Size]byte

// received is a file that is here whole but not in the manifest.
type received struct {
	size    int64
	checked bool   // its SHA-256, since Open
	placed  string // the name that an Install which failed later has given it; "": still in the folder of incoming files
}

func (s *Store) incomingPath(sum fileSum, suffix string) string {
	return filepath.Join(s.dir, incomingDir, hex.EncodeToString(sum[:])+suffix)
}

// parseIncoming takes the name of a received file apart; what has other names is not ours.
func parseIncoming(name string) (sum fileSum, suffix string, ok bool) {
	for _, suffix = range []string{partSuffix, fileSuffix} {
		digits, found := strings.CutSuffix(name, suffix)
		if b, err := hex.DecodeString(digits); found && err == nil && len(b) == len(sum) {
			return fileSum(b), suffix, true
		}
	}
	return sum, "", false
}

// findReceived looks at what was received before a restart, and removes what is of no use any more.
func (s *Store) findReceived() error {
	here := make(map[fileSum]bool, len(s.mu.files))
	for _, f := range s.mu.files {
		here[f.meta.SHA256] = s.mu.damaged[f.name] == nil
	}
	err := s.sweep(func(sum fileSum, m *Meta) bool {
		return m != nil && !here[sum] && m.LastWindow >= s.mu.base.window
	})
	if err != nil {
		return err
	}
	return s.eachIncoming(func(sum fileSum, suffix, path string) error {
		if suffix != fileSuffix {
			return nil
		}
		size, err := s.sizeOf(path)
		if err == nil {
			s.mu.received[sum] = &received{size: size}
		}
		return err
	})
}

// eachIncoming calls fn with the files in the folder of received files.
func (s *Store) eachIncoming(fn func(sum fileSum, suffix, path string) error) error {
	dir := filepath.Join(s.dir, incomingDir)
	names, err := s.fs.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		if sum, suffix, ok := parseIncoming(name); ok && err == nil {
			err = fn(sum, suffix, filepath.Join(dir, name))
		}
	}
	return err
}

// sweep removes the received bytes, whole files and parts, of files that are not useful. m is what the bytes' header says,
// nil if it is not here or wrong. Files that are being received now stay. incoming is held, or nobody else knows the Store.
func (s *Store) sweep(useful func(sum fileSum, m *Meta) bool) error {
	return s.eachIncoming(func(sum fileSum, _, path string) error {
		if s.isReceiving(sum) || useful(sum, s.headerOf(path)) {
			return nil
		}
		s.mu.Lock()
		if r := s.mu.received[sum]; r != nil && r.placed == "" {
			delete(s.mu.received, sum)
		}
		s.mu.Unlock()
		return s.fs.Remove(path)
	})
}

func (s *Store) isReceiving(sum fileSum) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.receive[sum]
}

// headerOf reads the header of a received file; nil if there is none that is right.
func (s *Store) headerOf(path string) *Meta {
	f, err := s.fs.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	b := make([]byte, headerSize)
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	m, fault := decodeHeader(b)
	if fault != nil {
		return nil
	}
	return &m
}

func (s *Store) sizeOf(path string) (int64, error) {
	f, err := s.fs.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.Size()
}

// Missing lists those of want that are neither in the manifest, with this name and sum and not known to be damaged, nor
// received.
func (s *Store) Missing(want []Meta) []Meta {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Meta
	for i := range want {
		if s.ownLocked(&want[i]) == nil && !s.isReceived(&want[i]) {
			list = append(list, want[i])
		}
	}
	return list
}

// ownLocked is the file of the manifest that m describes, if it is not known to be damaged; mu is held.
func (s *Store) ownLocked(m *Meta) *file {
	for _, f := range s.mu.files {
		if f.meta == *m && s.mu.damaged[f.name] == nil {
			return f
		}
	}
	return nil
}

// isReceived tells whether a file waits for its Install; mu is held.
func (s *Store) isReceived(m *Meta) bool {
	r := s.mu.received[m.SHA256]
	return r != nil && r.size == m.Size
}

// Forget removes the received bytes, whole files and parts, of all files but those of want and those that are being received
// now.
func (s *Store) Forget(want []Meta) error {
	wanted := make(map[fileSum]bool, len(want))
	for i := range want {
		wanted[want[i].SHA256] = true
	}
	s.incoming.Lock()
	defer s.incoming.Unlock()
	if err := s.sweep(func(sum fileSum, _ *Meta) bool { return wanted[sum] }); err != nil {
		return fmt.Errorf("subtree: forget received files: %w", err)
	}
	return nil
}

// checkSum reads a file of a size to its end and compares its SHA-256.
func (f *file) checkSum(op string, h vfs.File) error {
	hash, buf := sha256.New(), make([]byte, 256<<10)
	for at := int64(0); at < f.meta.Size; {
		b := buf[:min(int64(len(buf)), f.meta.Size-at)]
		h.Prefetch(at, 2*int64(len(buf)))
		if err := f.readInto(h, b, at); err != nil {
			err.Op = op
			return err
		}
		hash.Write(b)
		at += int64(len(b))
	}
	if fileSum(hash.Sum(nil)) != f.meta.SHA256 {
		return f.corrupt(op, 0, fmt.Sprintf("the file's SHA-256 is not %x", f.meta.SHA256), nil)
	}
	return nil
}
