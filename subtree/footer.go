package subtree

import (
	"sort"

	"github.com/cantus-bus/cantus/internal/topic"
)

// The footer:
//
//	 0 u64 bytes         of all records with padding
//	 8 i64 first time    of the first message
//	16 i64 last time     of the last
//	24 u32 max topic     highest topic number
//	28 u32 partitions    P
//	32 u32 sections      S, of all partitions
//	36 u32 samples       T
//	40 partition rows    P of 40 bytes, nodes ascend
//	.. section rows      S of 64 bytes: those of the first partition, of the second, ...; stores ascend within one
//	.. time samples      T of {u64 seq, i64 time}: the messages whose seq is a multiple of sampleEvery
//
// Partition row:
//
//	 0 u32 node          of the topic tree
//	 4 u32 sections      at least 1
//	 8 u64 directory     offset of its pages; the page table follows on them
//	16 u64 size          of the pages together
//	24 u32 pages
//	28 u32 table crc     CRC-32C of the page table
//	32 u32 topics
//	36 u32 reserved      0
//
// Section row:
//
//	 0 u32 store         number in the plan; 0 in a window
//	 4 u32 blocks
//	 8 u64 messages
//	16 u64 bytes         of records with padding
//	24 u64 first seq
//	32 u64 last seq
//	40 u64 offset        of its first block
//	48 u64 stored        size of its blocks together
//	56 u64 table         offset of its block table
const (
	footerHeadSize   = 40
	partitionRowSize = 40
	sectionRowSize   = 64
	sampleSize       = 16

	sampleEvery = 1024
)

type footer struct {
	bytes               uint64
	firstTime, lastTime int64
	maxTopic            topic.ID
	partitions          []partition
	sections            []section // partitions' sections are parts of it
	samples             []sample
}

type partition struct {
	node      topic.ID
	sections  []section
	directory uint64
	size      uint64
	pages     uint32
	tableCRC  uint32
	topics    uint32
	maxTopic  topic.ID // the file's
}

type section struct {
	store, blocks   uint32
	messages, bytes uint64
	first, last     uint64
	data, dataSize  uint64
	table           uint64
}

type sample struct {
	seq  uint64
	time int64
}

func (f *footer) encode() []byte {
	b := make([]byte, 0, footerHeadSize+len(f.partitions)*partitionRowSize+len(f.sections)*sectionRowSize+len(f.samples)*sampleSize)
	b = le.AppendUint64(b, f.bytes)
	b = le.AppendUint64(b, uint64(f.firstTime))
	b = le.AppendUint64(b, uint64(f.lastTime))
	b = le.AppendUint32(b, uint32(f.maxTopic))
	b = le.AppendUint32(b, uint32(len(f.partitions)))
	b = le.AppendUint32(b, uint32(len(f.sections)))
	b = le.AppendUint32(b, uint32(len(f.samples)))
	for i := range f.partitions {
		b = f.partitions[i].append(b)
	}
	for i := range f.sections {
		b = f.sections[i].append(b)
	}
	for _, s := range f.samples {
		b = le.AppendUint64(b, s.seq)
		b = le.AppendUint64(b, uint64(s.time))
	}
	return b
}

func (p *partition) append(b []byte) []byte {
	b = le.AppendUint32(b, uint32(p.node))
	b = le.AppendUint32(b, uint32(len(p.sections)))
	b = le.AppendUint64(b, p.directory)
	b = le.AppendUint64(b, p.size)
	b = le.AppendUint32(b, p.pages)
	b = le.AppendUint32(b, p.tableCRC)
	b = le.AppendUint32(b, p.topics)
	return le.AppendUint32(b, 0)
}

func (s *section) append(b []byte) []byte {
	b = le.AppendUint32(b, s.store)
	b = le.AppendUint32(b, s.blocks)
	for _, v := range [...]uint64{s.messages, s.bytes, s.first, s.last, s.data, s.dataSize, s.table} {
		b = le.AppendUint64(b, v)
	}
	return b
}

// decodeFooter checks the footer of a file whose header said m, and which stands at an offset.
func decodeFooter(b []byte, m *Meta, offset uint64) (*footer, *fault) {
	if len(b) < footerHeadSize {
		return nil, &fault{0, "the footer is cut"}
	}
	f := &footer{
		bytes: le.Uint64(b), firstTime: int64(le.Uint64(b[8:])), lastTime: int64(le.Uint64(b[16:])),
		maxTopic: topic.ID(le.Uint32(b[24:])),
	}
	parts, secs, samples := uint64(le.Uint32(b[28:])), uint64(le.Uint32(b[32:])), uint64(le.Uint32(b[36:]))
	if footerHeadSize+parts*partitionRowSize+secs*sectionRowSize+samples*sampleSize != uint64(len(b)) {
		return nil, &fault{28, "the footer's counts do not fit its size"}
	}
	at := uint64(footerHeadSize)
	secAt := at + parts*partitionRowSize
	f.sections = make([]section, secs)
	for i := range f.sections {
		f.sections[i] = decodeSection(b[secAt+uint64(i)*sectionRowSize:])
		if rule := f.sections[i].validate(m, offset); rule != "" {
			return nil, &fault{int64(secAt) + int64(i)*sectionRowSize, rule}
		}
	}
	if fault := f.decodePartitions(b[at:secAt], offset); fault != nil {
		fault.at += int64(at)
		return nil, fault
	}
	sampleAt := secAt + secs*sectionRowSize
	if fault := f.decodeSamples(b[sampleAt:], m); fault != nil {
		fault.at += int64(sampleAt)
		return nil, fault
	}
	return f, f.validateSums(m)
}

func decodeSection(b []byte) section {
	return section{
		store: le.Uint32(b), blocks: le.Uint32(b[4:]), messages: le.Uint64(b[8:]), bytes: le.Uint64(b[16:]),
		first: le.Uint64(b[24:]), last: le.Uint64(b[32:]), data: le.Uint64(b[40:]), dataSize: le.Uint64(b[48:]), table: le.Uint64(b[56:]),
	}
}

// inside tells whether [offset, offset+size) lies between the header and the footer.
func inside(offset, size, footerAt uint64) bool {
	return offset >= headerSize && offset <= footerAt && size <= footerAt-offset
}

func (s *section) validate(m *Meta, footerAt uint64) string {
	switch {
	case s.blocks == 0 || s.messages < uint64(s.blocks) || s.bytes < s.messages:
		return "a section's counts contradict each other"
	case s.first < m.FirstSeq || s.last > m.LastSeq || s.first > s.last || s.messages > s.last-s.first+1:
		return "a section's seqs are not the file's"
	case !inside(s.data, s.dataSize, footerAt) || !inside(s.table, tableSize(s.blocks), footerAt):
		return "a section lies outside the file"
	}
	return ""
}

func (f *footer) decodePartitions(b []byte, footerAt uint64) *fault {
	f.partitions = make([]partition, len(b)/partitionRowSize)
	rest := f.sections
	for i := range f.partitions {
		r, at := b[i*partitionRowSize:], int64(i*partitionRowSize)
		n := uint64(le.Uint32(r[4:]))
		if n == 0 || n > uint64(len(rest)) {
			return &fault{at, "a partition's count of sections is wrong"}
		}
		p := partition{
			node: topic.ID(le.Uint32(r)), sections: rest[:n:n], directory: le.Uint64(r[8:]), size: le.Uint64(r[16:]),
			pages: le.Uint32(r[24:]), tableCRC: le.Uint32(r[28:]), topics: le.Uint32(r[32:]), maxTopic: f.maxTopic,
		}
		rest = rest[n:]
		switch {
		case i > 0 && p.node <= f.partitions[i-1].node:
			return &fault{at, "partitions are not in order"}
		case p.node > f.maxTopic:
			return &fault{at, "a partition's node is beyond the file's highest topic"}
		case !inside(p.directory, p.size, footerAt) || !inside(p.directory+p.size, uint64(p.pages)*pageRowSize, footerAt):
			return &fault{at, "a directory lies outside the file"}
		case p.pages == 0 || p.topics < p.pages:
			return &fault{at, "a directory's counts contradict each other"}
		}
		for j := 1; j < len(p.sections); j++ {
			if p.sections[j].store <= p.sections[j-1].store {
				return &fault{at, "stores are not in order"}
			}
		}
		f.partitions[i] = p
	}
	if len(rest) > 0 {
		return &fault{0, "sections without a partition"}
	}
	return nil
}

func (f *footer) decodeSamples(b []byte, m *Meta) *fault {
	f.samples = make([]sample, len(b)/sampleSize)
	for i := range f.samples {
		s := sample{le.Uint64(b[i*sampleSize:]), int64(le.Uint64(b[i*sampleSize+8:]))}
		if s.seq < m.FirstSeq || s.seq > m.LastSeq || i > 0 && (s.seq <= f.samples[i-1].seq || s.time < f.samples[i-1].time) {
			return &fault{int64(i * sampleSize), "time samples are not in order"}
		}
		f.samples[i] = s
	}
	return nil
}

func (f *footer) validateSums(m *Meta) *fault {
	var messages, bytes uint64
	for i := range f.sections {
		messages += f.sections[i].messages
		bytes += f.sections[i].bytes
	}
	if messages != m.Messages() || bytes != f.bytes {
		return &fault{0, "the sections do not add up to the file's messages and bytes"}
	}
	return nil
}

// find returns the row of a partition; nil if it has none.
func (f *footer) find(node topic.ID) *partition {
	i := sort.Search(len(f.partitions), func(i int) bool { return f.partitions[i].node >= node })
	if i == len(f.partitions) || f.partitions[i].node != node {
		return nil
	}
	return &f.partitions[i]
}
