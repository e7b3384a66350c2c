package cluster

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/internal/vfs"
)

// memFolder is a folder in memory that has an identity.
func memFolder(t *testing.T) (*folder, *vfs.Mem) {
	t.Helper()
	m := vfs.NewMem()
	mustDo(t, m.MkdirAll("d"))
	f := &folder{fs: m, dir: "d"}
	id, err := loadIdentity(m, f.dir)
	mustDo(t, err)
	f.set(id)
	return f, m
}

// TestIdentityHangs: while the disk holds up a change of the identity, it can be read, as it was.
func TestIdentityHangs(t *testing.T) {
	f, m := memFolder(t)
	hangs, goOn, changed, read := make(chan bool), make(chan bool), make(chan error, 1), make(chan identity, 1)
	m.SetHook(func(op vfs.Op, _ string) error {
		if op == vfs.OpSync {
			close(hangs)
			<-goOn
		}
		return nil
	})
	go func() {
		_, err := f.setCluster("c")
		changed <- err
	}()
	<-hangs
	go func() { read <- f.identity() }()
	select {
	case id := <-read:
		if id.ClusterID != "" {
			t.Error("it has changed before it is durable")
		}
	case <-time.After(30 * time.Second):
		t.Error("who reads it waits for the disk")
	}
	close(goOn)
	if err := <-changed; err != nil || f.identity().ClusterID != "c" {
		t.Error(err, f.identity())
	}
}

// TestIdentityNotWritten fails each step of a change: the identity stays as it was, and the change can be made again. A crash finds one
// of the two.
func TestIdentityNotWritten(t *testing.T) {
	for step := 1; ; step++ {
		f, m := memFolder(t)
		was, seen := f.identity(), 0
		m.SetHook(func(op vfs.Op, _ string) error {
			if seen++; seen == step && op != vfs.OpRemove {
				return errPower
			}
			return nil
		})
		err := f.setHasLog()
		m.SetHook(nil)
		if seen < step {
			mustDo(t, err)
			return
		}
		when := fmt.Sprintf("step %d fails", step)
		if !errors.Is(err, errPower) || f.identity().HasLog {
			t.Fatalf("%s: %v, %+v", when, err, f.identity())
		}
		if id, err := loadIdentity(m.Crash(nil), "d"); err != nil || id.NodeID != was.NodeID || id.HasLog {
			t.Fatalf("%s, and a crash: %+v, %v", when, id, err)
		}
		mustDo(t, f.setHasLog())
		if id, err := loadIdentity(m.Crash(nil), "d"); err != nil || id.NodeID != was.NodeID || !id.HasLog {
			t.Fatalf("%s, and again: %+v, %v", when, id, err)
		}
	}
}
