package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Op names a step that changes a Mem, for hooks.
type Op string

// Steps of a Mem.
const (
	OpCreate  Op = "create"
	OpWrite   Op = "write"
	OpSync    Op = "sync"
	OpRename  Op = "rename"
	OpRemove  Op = "remove"
	OpMkdir   Op = "mkdir"
	OpSyncDir Op = "syncdir"
	OpOpen    Op = "open"
	OpRead    Op = "read"
)

// Hook is called before a step; an error makes the step fail without effect. It may be called by several goroutines.
// For a write it may be a *ShortWrite: then the first bytes were written.
type Hook func(op Op, name string) error

// ShortWrite is a write that ends early, as that into the last of a disk's space does.
type ShortWrite struct {
	Bytes int // written all the same, if there were as many
	Err   error
}

func (e *ShortWrite) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ShortWrite) Unwrap() error { return e.Err }

// Mem is a file system in memory that can lose power.
//
// Invariant: durable holds the names that SyncDir has seen; of a node, its first synced bytes survive.
type Mem struct {
	mu      sync.Mutex
	hook    Hook
	names   map[string]*node
	durable map[string]*node
	dirs    map[string]bool // folders are durable at once
}

// node is a file's content, whatever its names are. Guarded by Mem.mu.
type node struct {
	data   []byte
	synced int
}

// NewMem makes an empty file system.
func NewMem() *Mem {
	return &Mem{names: map[string]*node{}, durable: map[string]*node{}, dirs: map[string]bool{}}
}

// SetHook sets what is called before each step; nil: nothing.
func (m *Mem) SetHook(h Hook) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hook = h
}

// Crash returns a new file system with what a power cut at this moment could leave. All that was synced is there. Of the
// rest, r decides piece by piece: unsynced bytes may be there, or missing, or zero; a change of names may have happened or
// not. Without r all of it is lost.
func (m *Mem) Crash(r *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	after := NewMem()
	maps.Copy(after.dirs, m.dirs)
	all := maps.Clone(m.names)
	maps.Copy(all, m.durable)
	kept := map[*node]*node{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		n := m.durable[name]
		if r != nil && r.Intn(2) == 0 {
			n = m.names[name]
		}
		if n == nil {
			continue
		}
		if kept[n] == nil {
			kept[n] = n.crash(r)
		}
		after.names[name], after.durable[name] = kept[n], kept[n]
	}
	return after
}

func (n *node) crash(r *rand.Rand) *node {
	size := n.synced
	if r != nil {
		size += r.Intn(len(n.data) - n.synced + 1)
	}
	data := slices.Clone(n.data[:size])
	if r != nil && r.Intn(3) == 0 {
		clear(data[n.synced:])
	}
	return &node{data, size}
}

// step runs the hook; mu is not held.
func (m *Mem) step(op Op, name string) error {
	m.mu.Lock()
	h := m.hook
	m.mu.Unlock()
	if h == nil {
		return nil
	}
	return h(op, name)
}

func pathError(op Op, name string, err error) error {
	return &fs.PathError{Op: string(op), Path: name, Err: err}
}

// Create makes a file in a folder that exists.
func (m *Mem) Create(name string) (File, error) {
	if err := m.step(OpCreate, name); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.dirs[filepath.Dir(name)] {
		return nil, pathError(OpCreate, name, fs.ErrNotExist)
	}
	n := &node{}
	m.names[name] = n
	return &memFile{m: m, n: n, name: name}, nil
}

// Open opens a file.
func (m *Mem) Open(name string) (File, error) {
	if err := m.step(OpOpen, name); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.names[name]
	if n == nil {
		return nil, pathError(OpOpen, name, fs.ErrNotExist)
	}
	return &memFile{m: m, n: n, name: name}, nil
}

// OpenAppend opens a file, or makes one in a folder that exists: then it is a create to the hook.
func (m *Mem) OpenAppend(name string) (File, error) {
	m.mu.Lock()
	n := m.names[name]
	m.mu.Unlock()
	if n == nil {
		return m.Create(name)
	}
	return m.Open(name)
}

// Remove removes a name; files that are open stay readable.
func (m *Mem) Remove(name string) error {
	if err := m.step(OpRemove, name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names[name] == nil {
		return pathError(OpRemove, name, fs.ErrNotExist)
	}
	delete(m.names, name)
	return nil
}

// Rename gives a file another name.
func (m *Mem) Rename(from, to string) error {
	if err := m.step(OpRename, from); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.names[from]
	if n == nil {
		return pathError(OpRename, from, fs.ErrNotExist)
	}
	delete(m.names, from)
	m.names[to] = n
	return nil
}

// List lists the names of files in a folder.
func (m *Mem) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.dirs[dir] {
		return nil, pathError("list", dir, fs.ErrNotExist)
	}
	var list []string
	for name := range m.names {
		if filepath.Dir(name) == dir {
			list = append(list, filepath.Base(name))
		}
	}
	slices.Sort(list)
	return list, nil
}

// MkdirAll makes folders.
func (m *Mem) MkdirAll(dir string) error {
	if err := m.step(OpMkdir, dir); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for ; dir != "." && !m.dirs[dir]; dir = filepath.Dir(dir) {
		m.dirs[dir] = true
		if strings.HasSuffix(dir, string(filepath.Separator)) {
			break
		}
	}
	return nil
}

// SyncDir makes the names in a folder durable.
func (m *Mem) SyncDir(dir string) error {
	if err := m.step(OpSyncDir, dir); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.durable, func(name string, _ *node) bool { return filepath.Dir(name) == dir })
	for name, n := range m.names {
		if filepath.Dir(name) == dir {
			m.durable[name] = n
		}
	}
	return nil
}

// Bytes returns a copy of a file's content.
func (m *Mem) Bytes(name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.names[name]
	if n == nil {
		return nil, pathError("read", name, fs.ErrNotExist)
	}
	return slices.Clone(n.data), nil
}

// SetBytes gives a file another content, durable at once, also for those who have it open: what a bad disk does.
func (m *Mem) SetBytes(name string, b []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.names[name]
	if n == nil {
		n = &node{}
		m.names[name], m.durable[name] = n, n
	}
	n.data, n.synced = slices.Clone(b), len(b)
}

// memFile is a Mem's File.
type memFile struct {
	m      *Mem
	n      *node
	name   string
	closed bool // guarded by m.mu
}

func (f *memFile) check() error {
	if f.closed {
		return pathError("use", f.name, fs.ErrClosed)
	}
	return nil
}

// ReadAt reads like any io.ReaderAt.
func (f *memFile) ReadAt(b []byte, at int64) (int, error) {
	if err := f.m.step(OpRead, f.name); err != nil {
		return 0, err
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.check(); err != nil {
		return 0, err
	}
	if at < 0 {
		return 0, fmt.Errorf("vfs: read %s: offset %d", f.name, at)
	}
	if at >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.n.data[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Write(b []byte) (int, error) {
	fault := f.m.step(OpWrite, f.name)
	if fault != nil {
		b = b[:shortened(fault, len(b))]
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.check(); err != nil {
		return 0, err
	}
	f.n.data = append(f.n.data, b...)
	return len(b), fault
}

// shortened is how many of n bytes are written in spite of an error.
func shortened(err error, n int) int {
	var short *ShortWrite
	if errors.As(err, &short) {
		return min(n, short.Bytes)
	}
	return 0
}

// Sync makes the bytes durable.
func (f *memFile) Sync() error {
	if err := f.m.step(OpSync, f.name); err != nil {
		return err
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.n.synced = len(f.n.data)
	return f.check()
}

func (f *memFile) Close() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	err := f.check()
	f.closed = true
	return err
}

// Size is the length.
func (f *memFile) Size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return int64(len(f.n.data)), f.check()
}

// Prefetch does nothing.
func (f *memFile) Prefetch(int64, int64) {}
