package cluster

import (
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/internal/bugs"
)

// simDisk is what a simulated machine's raft stores have on disk. It outlives the process; of writes under way when the
// machine fails, each happened or did not.
type simDisk struct {
	mu     sync.Mutex
	c      *simCluster
	rng    *rand.Rand
	logs   map[uint64]*raft.Log
	low    uint64 // first and last index; 0: empty
	high   uint64
	stable map[string][]byte
	mount  *simStore // of the running process

	sync    time.Duration // a write takes up to so long
	broken  error         // of every write, if not nil
	gate    chan struct{} // writes wait until it is closed; nil: they do not
	pending []*simWrite

	// A disk that skips syncs says at once that it is done, and after a crash is as it was at its last flush.
	skips   bool
	flushed time.Time
	undo    func()
}

// simWrite is a write that is not durable yet.
type simWrite struct{ apply func() }

const simSync = 3 * time.Millisecond

func newSimDisk(rng *rand.Rand, c *simCluster) *simDisk {
	d := &simDisk{c: c, rng: rng, sync: simSync, skips: bugs.NoFsync}
	d.wipe()
	return d
}

// wipe empties a disk that no process uses.
func (d *simDisk) wipe() {
	d.change(func() { d.logs, d.low, d.high, d.stable = map[uint64]*raft.Log{}, 0, 0, map[string][]byte{} })
}

func (d *simDisk) change(do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	do()
}

func (d *simDisk) setSync(most time.Duration) { d.change(func() { d.sync = most }) }
func (d *simDisk) setBroken(err error)        { d.change(func() { d.broken = err }) }

func (d *simDisk) fails() (err error) {
	d.change(func() { err = d.broken })
	return err
}

// pause lets writes wait.
func (d *simDisk) pause() {
	d.change(func() {
		if d.gate == nil {
			d.gate = make(chan struct{})
		}
	})
}

func (d *simDisk) resume() {
	d.change(func() {
		if d.gate != nil {
			close(d.gate)
			d.gate = nil
		}
	})
}

// simStore is a process's view of its disk. It is dead after a crash.
type simStore struct{ disk *simDisk }

var errSimCrashed = errors.New("the machine has crashed")

// open starts a process's view.
func (d *simDisk) open() *simStore {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mount = &simStore{d}
	return d.mount
}

// crash ends the process: what was not durable may be there or not, but no write overtakes an earlier one. It tells how many of
// these are lost and how many are there.
func (d *simDisk) crash() (lost, kept int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mount = nil
	if d.undo != nil {
		d.undo()
		d.undo = nil
	}
	survive := d.rng.IntN(len(d.pending) + 1)
	for _, w := range d.pending[:survive] {
		w.apply()
	}
	lost, kept = len(d.pending)-survive, survive
	d.pending = nil
	return lost, kept
}

// write makes a change durable, which takes its time.
func (s *simStore) write(apply func()) error {
	d := s.disk
	d.mu.Lock()
	if d.mount != s {
		d.mu.Unlock()
		return errSimCrashed
	}
	if d.broken != nil {
		d.mu.Unlock()
		return d.broken
	}
	if d.skips {
		d.flushLocked()
		apply()
		d.mu.Unlock()
		return nil
	}
	w := &simWrite{apply}
	d.pending = append(d.pending, w)
	wait := time.Duration(d.rng.Int64N(int64(d.sync)+1)) + 20*time.Microsecond
	gate := d.gate
	d.mu.Unlock()
	if gate != nil {
		<-gate
	}
	time.Sleep(wait)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mount != s {
		return errSimCrashed
	}
	for i, p := range d.pending {
		if p == w {
			d.pending = append(d.pending[:i], d.pending[i+1:]...)
			break
		}
	}
	apply()
	return nil
}

// flushLocked makes everything so far durable if it is time to.
func (d *simDisk) flushLocked() {
	if d.undo != nil && time.Since(d.flushed) < 200*time.Millisecond {
		return
	}
	logs, low, high, stable := maps.Clone(d.logs), d.low, d.high, maps.Clone(d.stable)
	d.flushed = time.Now()
	d.undo = func() { d.logs, d.low, d.high, d.stable = logs, low, high, stable }
}

func (s *simStore) read(do func(d *simDisk) error) error {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	if s.disk.mount != s {
		return errSimCrashed
	}
	return do(s.disk)
}

func (s *simStore) FirstIndex() (i uint64, err error) {
	err = s.read(func(d *simDisk) error { i = d.low; return nil })
	return i, err
}

func (s *simStore) LastIndex() (i uint64, err error) {
	err = s.read(func(d *simDisk) error { i = d.high; return nil })
	return i, err
}

func (s *simStore) GetLog(index uint64, out *raft.Log) error {
	return s.read(func(d *simDisk) error {
		l := d.logs[index]
		if l == nil {
			return raft.ErrLogNotFound
		}
		*out = *l
		return nil
	})
}

func (s *simStore) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

func (s *simStore) StoreLogs(list []*raft.Log) error {
	copies := make([]raft.Log, len(list))
	for i, l := range list {
		copies[i] = *l
	}
	d := s.disk
	return s.write(func() {
		for i := range copies {
			l := &copies[i]
			d.logs[l.Index] = l
			if d.low == 0 {
				d.low = l.Index
			}
			d.high = max(d.high, l.Index)
		}
	})
}

func (s *simStore) DeleteRange(from, to uint64) error {
	d := s.disk
	return s.write(func() {
		for i := from; i <= to; i++ {
			delete(d.logs, i)
		}
		if from <= d.low {
			d.low = to + 1
			d.c.count(simSeenCut)
		}
		if to >= d.high {
			d.c.count(simSeenTail)
			d.high = from - 1
		}
		if d.low > d.high {
			d.low, d.high = 0, 0
		}
	})
}

var errSimNotFound = errors.New("not found") // raft compares the text

func (s *simStore) Set(key, value []byte) error {
	k, v := string(key), append([]byte(nil), value...)
	return s.write(func() { s.disk.stable[k] = v })
}

func (s *simStore) Get(key []byte) (value []byte, err error) {
	err = s.read(func(d *simDisk) error {
		if value = d.stable[string(key)]; value == nil {
			return errSimNotFound
		}
		return nil
	})
	return value, err
}

func (s *simStore) SetUint64(key []byte, value uint64) error {
	b := make([]byte, 8)
	for i := range b {
		b[i] = byte(value >> (8 * i))
	}
	return s.Set(key, b)
}

func (s *simStore) GetUint64(key []byte) (value uint64, err error) {
	b, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	for i := range b {
		value |= uint64(b[i]) << (8 * i)
	}
	return value, nil
}
