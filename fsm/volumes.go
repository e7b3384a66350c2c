package fsm

import "github.com/cantus-bus/cantus/internal/topic"

const (
	volumeBits  = 12
	volumeSlots = 1 << volumeBits // 24 bytes each: stays in a core's second cache
	maxVolumes  = volumeSlots / 2 // distinct topics gathered before they are flushed, so that probing stays short
)

// volumes gathers the counts of an entry's messages by topic, so that the table is told once per distinct topic: its counters are
// atomics that other goroutines read, and a store to one of them costs as much as several of these steps.
type volumes struct {
	slots [volumeSlots]volume
	used  []uint16 // slots in use, in order of first use. Invariant: len <= maxVolumes
	last  *volume  // slot of the message before, nil if none: most messages follow one of their own topic
}

type volume struct {
	topic    topic.ID
	messages uint32 // 0: the slot is free
	bytes    uint64
	lastSeq  uint64
}

func (v *volumes) init() {
	v.used = make([]uint16, 0, maxVolumes)
}

// add counts one message. t is told when v is full.
func (v *volumes) add(t *topic.Table, id topic.ID, size int, seq uint64) {
	s := v.last
	if s == nil || s.topic != id {
		if len(v.used) == maxVolumes {
			v.flush(t)
		}
		s = v.slot(id)
	}
	s.messages++
	s.bytes += uint64(size)
	s.lastSeq = seq
}

// slot finds or takes the slot of id.
func (v *volumes) slot(id topic.ID) *volume {
	i := uint32(id) * 0x9E3779B1 >> (32 - volumeBits) // Fibonacci hashing
	for v.slots[i].messages != 0 && v.slots[i].topic != id {
		i = (i + 1) % volumeSlots
	}
	s := &v.slots[i]
	if s.messages == 0 {
		v.used = append(v.used, uint16(i))
		*s = volume{topic: id}
	}
	v.last = s
	return s
}

// flush tells t what was gathered.
func (v *volumes) flush(t *topic.Table) {
	for _, i := range v.used {
		s := &v.slots[i]
		t.Add(s.topic, uint64(s.messages), s.bytes, s.lastSeq)
		s.messages = 0
	}
	v.used, v.last = v.used[:0], nil
}
