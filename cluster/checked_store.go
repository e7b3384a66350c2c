package cluster

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/raft"
)

// raft's log and vote lie in bolt, which has no checksums: a flipped bit could make a message's entry one of raft's own, and so lose
// it here alone, or make a node forget for whom it voted. These stores add what bolt lacks. What was stored without a checksum
// is taken as it is.

// checkedLogs keeps a checksum with each entry, in its Extensions, which nobody else uses:
//
//	0 u32 CRC-32C of index, term (u64 each), type (u8) and data
type checkedLogs struct{ raft.LogStore }

// StoreLog stores one entry.
func (s checkedLogs) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs stores copies that have checksums: raft goes on using its own.
func (s checkedLogs) StoreLogs(logs []*raft.Log) error {
	copies, list, sums := make([]raft.Log, len(logs)), make([]*raft.Log, len(logs)), make([]byte, 0, 4*len(logs))
	for i, l := range logs {
		copies[i], list[i] = *l, &copies[i]
		sums = binary.LittleEndian.AppendUint32(sums, sumOfLog(l))
		copies[i].Extensions = sums[4*i : 4*i+4]
	}
	return s.LogStore.StoreLogs(list)
}

// GetLog reads an entry and checks it.
func (s checkedLogs) GetLog(index uint64, l *raft.Log) error {
	if err := s.LogStore.GetLog(index, l); err != nil {
		return err
	}
	switch sum := l.Extensions; {
	case l.Index != index:
		return fmt.Errorf("entry %d of the raft log says that it is entry %d", index, l.Index)
	case len(sum) == 0:
		return nil
	case len(sum) != 4 || binary.LittleEndian.Uint32(sum) != sumOfLog(l):
		return fmt.Errorf("entry %d of the raft log is damaged: its checksum is wrong", index)
	}
	l.Extensions = nil
	return nil
}

func sumOfLog(l *raft.Log) uint32 {
	var head [17]byte
	binary.LittleEndian.PutUint64(head[:], l.Index)
	binary.LittleEndian.PutUint64(head[8:], l.Term)
	head[16] = byte(l.Type)
	return crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, l.Data)
}

// checkedStable keeps a checksum behind each value:
//
//	the value, u32 sumMark, u32 CRC-32C of key and value
type checkedStable struct{ raft.StableStore }

const (
	sumMark = 0x43524300
	sumSize = 8
)

func sumOfValue(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

// Set stores a value.
func (s checkedStable) Set(key, value []byte) error {
	b := binary.LittleEndian.AppendUint32(bytes.Clone(value), sumMark)
	return s.StableStore.Set(key, binary.LittleEndian.AppendUint32(b, sumOfValue(key, value)))
}

// Get reads a value and checks it.
func (s checkedStable) Get(key []byte) ([]byte, error) {
	b, err := s.StableStore.Get(key)
	if err != nil {
		return nil, err
	}
	n := len(b) - sumSize
	if n < 0 || binary.LittleEndian.Uint32(b[n:]) != sumMark {
		return b, nil
	}
	if value := b[:n]; binary.LittleEndian.Uint32(b[n+4:]) == sumOfValue(key, value) {
		return value, nil
	}
	return nil, fmt.Errorf("%s in raft/stable.db is damaged: its checksum is wrong: %s", key, howToMend)
}

// SetUint64 stores a number, big-endian as bolt's store does.
func (s checkedStable) SetUint64(key []byte, n uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, n))
}

// GetUint64 reads a number and checks it.
func (s checkedStable) GetUint64(key []byte) (uint64, error) {
	b, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	if len(b) != 8 {
		return 0, fmt.Errorf("%s in raft/stable.db is damaged: it has %d bytes: %s", key, len(b), howToMend)
	}
	return binary.BigEndian.Uint64(b), nil
}
