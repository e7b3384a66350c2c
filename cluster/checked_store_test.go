package cluster

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// flipped is what a store holds with one bit of it changed.
type flipped struct {
	*raft.InmemStore
	change func(*raft.Log)
	value  func(b []byte) []byte
}

func (s flipped) GetLog(index uint64, l *raft.Log) error {
	err := s.InmemStore.GetLog(index, l)
	if err == nil {
		l.Data = append([]byte(nil), l.Data...)
		l.Extensions = append([]byte(nil), l.Extensions...)
		s.change(l)
	}
	return err
}

func (s flipped) Get(key []byte) ([]byte, error) {
	b, err := s.InmemStore.Get(key)
	if err == nil {
		b = s.value(append([]byte(nil), b...))
	}
	return b, err
}

// TestCheckedLogs: an entry comes back as it was stored, and one with any bit changed does not come back.
func TestCheckedLogs(t *testing.T) {
	mem := raft.NewInmemStore()
	want := &raft.Log{Index: 7, Term: 3, Type: raft.LogCommand, Data: []byte("data")}
	mustDo(t, checkedLogs{mem}.StoreLogs([]*raft.Log{want, {Index: 8, Term: 3, Type: raft.LogNoop}}))
	if want.Extensions != nil {
		t.Error("raft's own entry was changed")
	}
	mustDo(t, mem.StoreLog(&raft.Log{Index: 9, Term: 3, Data: []byte("stored without a checksum")}))
	for i, data := range map[uint64]string{7: "data", 8: "", 9: "stored without a checksum"} {
		var l raft.Log
		mustDo(t, checkedLogs{mem}.GetLog(i, &l))
		if l.Index != i || l.Term != 3 || string(l.Data) != data || len(l.Extensions) > 0 {
			t.Errorf("entry %d is %+v", i, l)
		}
	}
	for name, change := range map[string]func(*raft.Log){
		"index": func(l *raft.Log) { l.Index ^= 4 }, "term": func(l *raft.Log) { l.Term ^= 1 << 40 },
		"type": func(l *raft.Log) { l.Type ^= 1 }, "data": func(l *raft.Log) { l.Data[2] ^= 16 },
		"shorter": func(l *raft.Log) { l.Data = l.Data[:3] }, "sum": func(l *raft.Log) { l.Extensions[3] ^= 1 },
		"half a sum": func(l *raft.Log) { l.Extensions = l.Extensions[:2] },
	} {
		err := checkedLogs{flipped{InmemStore: mem, change: change}}.GetLog(7, new(raft.Log))
		if err == nil || !strings.Contains(err.Error(), "entry 7") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCheckedStable: as TestCheckedLogs, for the vote.
func TestCheckedStable(t *testing.T) {
	mem := raft.NewInmemStore()
	s := checkedStable{mem}
	key, who := []byte("CurrentTerm"), []byte("LastVoteCand")
	mustDo(t, s.SetUint64(key, 1<<33+5))
	mustDo(t, s.Set(who, []byte("somebody")))
	n, err1 := s.GetUint64(key)
	b, err2 := s.Get(who)
	if n != 1<<33+5 || string(b) != "somebody" || err1 != nil || err2 != nil {
		t.Fatalf("%d, %q: %v, %v", n, b, err1, err2)
	}
	for at := range 16 * 8 {
		bad := checkedStable{flipped{InmemStore: mem, value: func(b []byte) []byte { b[at/8] ^= 1 << (at % 8); return b }}}
		if n, err := bad.GetUint64(key); err == nil {
			t.Fatalf("bit %d: %d", at, n)
		}
		if b, err := bad.Get(who); err == nil && at < 64 {
			t.Fatalf("bit %d: %q", at, b)
		}
	}
	mustDo(t, mem.Set(who, []byte("stored without")))
	if b, err := s.Get(who); err != nil || string(b) != "stored without" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := s.Get([]byte("nothing")); err == nil || err.Error() != "not found" { // raft looks for these words
		t.Errorf("what is not there: %v", err)
	}
}

// TestStoresKeepChecksums: what raft stores in a folder has them.
func TestStoresKeepChecksums(t *testing.T) {
	dir := t.TempDir()
	f, err := openFolder(dir)
	mustDo(t, err)
	s, err := openStores(Options{DataDir: dir}, f)
	mustDo(t, err)
	mustDo(t, s.logs.StoreLog(&raft.Log{Index: 1, Term: 1, Data: []byte("x")}))
	mustDo(t, s.stable.SetUint64([]byte("CurrentTerm"), 9))
	_, err = s.stable.GetUint64([]byte("none"))
	if err == nil || err.Error() != "not found" {
		t.Errorf("what is not there: %v", err)
	}
	mustDo(t, s.close())
	bare, err := openBolt(filepath.Join(dir, "raft", "log.db"), 0)
	mustDo(t, err)
	var l raft.Log
	mustDo(t, bare.GetLog(1, &l))
	mustDo(t, bare.Close())
	if len(l.Extensions) != 4 {
		t.Errorf("%+v", l)
	}
	mustDo(t, f.close())
}
