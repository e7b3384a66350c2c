package record

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
)

// wantCorrupt checks that err is of the family and says the rule and the offset.
func wantCorrupt(t *testing.T, err error, offset int, rule string) {
	t.Helper()
	var c *CorruptError
	if !errors.Is(err, ErrCorrupt) || !errors.As(err, &c) {
		t.Fatalf("got %v, want a CorruptError", err)
	}
	if c.Rule != rule || c.Offset != offset {
		t.Fatalf("got %q at %d, want %q at %d", c.Rule, c.Offset, rule, offset)
	}
	if errors.Is(err, ErrTooLarge) != strings.Contains(rule, "over the limit") {
		t.Fatalf("%v is ErrTooLarge: %v", err, errors.Is(err, ErrTooLarge))
	}
	if !strings.Contains(err.Error(), rule) || !strings.Contains(err.Error(), c.Object) {
		t.Fatalf("error %q does not say object and rule", err)
	}
}

func mustRecord(t testing.TB, dst []byte, topic uint32, headers []Header, payload string) []byte {
	t.Helper()
	out, err := AppendRecord(dst, topic, headers, []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// setBlock replaces the header block of the one record of a run, keeping the payload "p".
func setBlock(block ...byte) []byte {
	size := HeaderSize + len(block) + 1
	run := le.AppendUint32(nil, uint32(size)|headersFlag)
	run = append(run, make([]byte, HeaderSize-4)...)
	run = append(append(run, block...), 'p')
	return appendPad(run, 0)
}

func TestRecordRules(t *testing.T) {
	good := mustRecord(t, nil, 7, nil, "hello")
	bigBlock := make([]byte, 2+MaxHeaderBytes+1)
	le.PutUint16(bigBlock, MaxHeaderBytes+1)
	tests := []struct {
		rule string
		run  []byte
	}{
		{"record header is cut short", good[:16]},
		{"reserved bits of the record size are not zero", change(good, func(b []byte) { b[3] = 0x40 })},
		{"record size is less than its header", change(good, func(b []byte) { b[0] = HeaderSize - 1 })},
		{"record is longer than its run", change(good, func(b []byte) { b[0] = 33 })},
		{"padding of a record is not zero", change(good, func(b []byte) { b[31] = 1 })},
		{"padding of a record is not zero", change(good, func(b []byte) { b[29] = 1 })},
		{"payload is over the limit", appendPad(append(le.AppendUint32(nil, HeaderSize+MaxPayload+1),
			make([]byte, HeaderSize-4+MaxPayload+1)...), 0)},
		{"header block is cut short", appendPad(append(le.AppendUint32(nil, (HeaderSize+1)|headersFlag), make([]byte, HeaderSize-3)...), 0)},
		{"header block is empty", setBlock(0, 0)},
		{"header block is over the limit", setBlock(bigBlock...)},
		{"header block is longer than its record", setBlock(9, 0, 1, 1, 0, 'k', 'v')},
		{"header is cut short", setBlock(2, 0, 1, 1)},
		{"header key is empty", setBlock(4, 0, 0, 1, 0, 'v')},
		{"header is longer than its block", setBlock(5, 0, 1, 2, 0, 'k', 'v')},
		{"header key is not UTF-8", setBlock(5, 0, 1, 1, 0, 0xff, 'v')},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			_, rest, err := Next(tt.run)
			wantCorrupt(t, err, 0, tt.rule)
			if len(rest) != len(tt.run) {
				t.Fatal("Next took a bad record off")
			}
			wantCorrupt(t, ValidateRun(append(bytes.Clone(good), tt.run...), 2), len(good), tt.rule)
		})
	}
	two := append(bytes.Clone(good), good...)
	for _, count := range []int{0, 1, 3} {
		wantCorrupt(t, ValidateRun(two, count), len(two), "run has not as many records as were counted")
	}
	if err := ValidateRun(setBlock(5, 0, 1, 1, 0, 'k', 'v'), 1); err != nil {
		t.Fatal(err)
	}
}

// change returns a changed copy.
func change(b []byte, f func(b []byte)) []byte {
	b = bytes.Clone(b)
	f(b)
	return b
}

// batchBytes is a batch of a producer with two preconditions and two records: 80 bytes before the records at 80 and 112.
func batchBytes(t testing.TB) Batch {
	t.Helper()
	var b BatchBuilder
	b.Reset(nil, []Precondition{{Topic: 3, LastSeq: 40}, {Topic: 4}})
	for _, p := range []string{"hello", "world"} {
		if err := b.Add(3, nil, []byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	return b.Finish(ProducerID{15: 1}, 2, 10, true)
}

func TestBatchRules(t *testing.T) {
	good := batchBytes(t)
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	noProducer := func(b []byte) {
		clear(b[batchProducerAt:batchFlagsAt])
		clear(b[batchNumberAt:batchReservedAt])
	}
	if err := Batch(change(good, noProducer)).Validate(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		rule   string
		offset int
		change func(b []byte)
	}{
		{"batch is over the limit", 0, func(b []byte) { le.PutUint32(b, MaxBatchBytes+8) }},
		{"batch size is not a multiple of 8", 0, func(b []byte) { b[0]++ }},
		{"batch size differs from the bytes that are there", 0, func(b []byte) { b[0] += 8 }},
		{"batch size differs from the bytes that are there", 0, func(b []byte) { b[0] -= 8 }},
		{"batch has no records", 4, func(b []byte) { b[4] = 0 }},
		{"unknown batch flags", 28, func(b []byte) { b[28] = 3 }},
		{"unknown batch flags", 28, func(b []byte) { b[29] = 1 }},
		{"reserved bytes of the batch are not zero", 40, func(b []byte) { b[47] = 1 }},
		{"epoch without a producer", 24, func(b []byte) { noProducer(b); b[24] = 1 }},
		{"number without a producer", 32, func(b []byte) { noProducer(b); b[32] = 1 }},
		{"epoch of a producer is 0", 24, func(b []byte) { b[24] = 0 }},
		{"number of a producer's record is 0", 32, func(b []byte) { b[32] = 0 }},
		{"numbers of the batch overflow", 32, func(b []byte) { le.PutUint64(b[32:], math.MaxUint64-1) }},
		{"number of preconditions is over the limit", 30, func(b []byte) { b[30] = MaxPreconditions + 1 }},
		{"preconditions in a batch that is not atomic", 30, func(b []byte) { b[28] = 0 }},
		{"preconditions are longer than the batch", 30, func(b []byte) { b[30] = 10 }},
		{"reserved bytes of a precondition are not zero", 68, func(b []byte) { b[71] = 1 }},
		{"seq or time is set before the record was applied", 80, func(b []byte) { b[80+8] = 1 }},
		{"seq or time is set before the record was applied", 112, func(b []byte) { b[112+23] = 1 }},
		{"padding of a record is not zero", 112, func(b []byte) { b[143] = 1 }},
		{"batch has not as many records as it counts", 144, func(b []byte) { b[4] = 3 }},
		{"batch has not as many records as it counts", 144, func(b []byte) { b[4] = 1 }},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			wantCorrupt(t, Batch(change(good, tt.change)).Validate(), tt.offset, tt.rule)
		})
	}
	wantCorrupt(t, good[:40].Validate(), 0, "batch header is cut short")
	wantCorrupt(t, Batch(nil).Validate(), 0, "batch header is cut short")
}

// entryBytes is an uncompressed entry of one batch and two new topics.
func entryBytes(t testing.TB, codec Codec) []byte {
	t.Helper()
	var e EntryBuilder
	e.Reset()
	b := Batch(e.AddBatch(batchBytes(t)))
	SetTopic(b.Records(), e.NewTopicRef("a/b"))
	b.SetPreconditionTopic(1, e.NewTopicRef("a/c/d"))
	if codec != CodecNone {
		for range 20 {
			e.AddBatch(batchBytes(t))
		}
	}
	return e.Finish(codec, EntryHeader{Time: 1e18, Proposer: 77, Proposal: 5})
}

// reseal makes the checksum right after a change.
func reseal(b []byte) []byte {
	le.PutUint32(b[entryCRCAt:], entryCRC(b))
	return b
}

func TestEntryRules(t *testing.T) {
	good := entryBytes(t, CodecNone)
	packed := entryBytes(t, CodecS2)
	if Codec(packed[entryCodecAt]) != CodecS2 {
		t.Fatal("repeated batches were not compressed")
	}
	tests := []struct {
		rule   string
		offset int
		data   []byte
	}{
		{"entry header is cut short", 0, good[:47]},
		{"no entry begins here: wrong magic", 0, change(good, func(b []byte) { b[0] = 'c' })},
		{"entry has a version that this build does not know", 4, change(good, func(b []byte) { b[4] = 2 })},
		{"entry has a kind that this build does not know", 5, change(good, func(b []byte) { b[5] = 0 })},
		{"entry has a kind that this build does not know", 5, change(good, func(b []byte) { b[5] = 200 })},
		{"entry has a codec that this build does not know", 6, change(good, func(b []byte) { b[6] = 4 })},
		{"reserved byte of the entry is not zero", 7, change(good, func(b []byte) { b[7] = 1 })},
		{"raw size of the entry is over the limit", 12, change(packed, func(b []byte) { le.PutUint32(b[12:], MaxEntryRaw+1) })},
		{"raw size of an uncompressed entry differs from the bytes that are there", 12, good[:len(good)-1]},
		{"compressed body is not smaller than the raw one", 12, change(packed, func(b []byte) { le.PutUint32(b[12:], 9) })},
		{"reserved bytes of the entry are not zero", 40, change(good, func(b []byte) { b[47] = 1 })},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			_, err := PeekEntry(tt.data)
			wantCorrupt(t, err, tt.offset, tt.rule)
			_, _, _, err = DecodeEntry(tt.data, nil)
			wantCorrupt(t, err, tt.offset, tt.rule)
		})
	}
}

// TestEntryChecksum flips every bit of an entry: each is found.
func TestEntryChecksum(t *testing.T) {
	for _, codec := range []Codec{CodecNone, CodecS2} {
		good := entryBytes(t, codec)
		for i := range len(good) * 8 {
			bad := change(good, func(b []byte) { b[i/8] ^= 1 << (i % 8) })
			if _, _, _, err := DecodeEntry(bad, nil); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%s: bit %d of byte %d flipped: %v", codec, i%8, i/8, err)
			}
		}
	}
}

// TestDecompressRules has bodies whose checksum is right but whose compressed bytes are not.
func TestDecompressRules(t *testing.T) {
	for codec, rule := range map[Codec]string{
		CodecS2:   "length in the s2 body differs from the raw size",
		CodecLZ4:  "lz4 body does not decompress to the raw size",
		CodecZstd: "zstd body does not decompress to the raw size",
	} {
		good := entryBytes(t, codec)
		if Codec(good[entryCodecAt]) != codec {
			t.Fatalf("%s: not compressed", codec)
		}
		raw := le.Uint32(good[entryRawSizeAt:])
		for _, wrong := range []uint32{raw - 8, raw + 8, MaxEntryRaw} {
			bad := reseal(change(good, func(b []byte) { le.PutUint32(b[entryRawSizeAt:], wrong) }))
			_, _, _, err := DecodeEntry(bad, nil)
			wantCorrupt(t, err, EntryHeaderSize, rule)
		}
	}
	bad := entryBytes(t, CodecS2)
	_, n := s2Length(bad[EntryHeaderSize:])
	body := bad[EntryHeaderSize+n:]
	for i := range body {
		body[i] = 0xff
	}
	_, _, _, err := DecodeEntry(reseal(bad), nil)
	wantCorrupt(t, err, EntryHeaderSize, "s2 body does not decompress")
}

// s2Length reads the length that begins an s2 block.
func s2Length(b []byte) (v, n int) {
	for shift := 0; ; shift += 7 {
		v |= int(b[n]&0x7f) << shift
		n++
		if b[n-1] < 0x80 {
			return v, n
		}
	}
}

func TestPublishBodyRules(t *testing.T) {
	good := bytes.Clone(entryBytes(t, CodecNone)[EntryHeaderSize:])
	const batch, table = 8, 8 + 144 // table: 3 0 a / b, 5 0 a / c / d, 4 zeros
	names, run, err := PublishBody(good, nil)
	if err != nil || len(names) != 2 || len(run) != 144 || len(good) != table+16 {
		t.Fatalf("%d names, %d bytes of batches, %v", len(names), len(run), err)
	}
	tests := []struct {
		rule   string
		offset int
		body   []byte
	}{
		{"header of the body is cut short", 0, good[:7]},
		{"body is not a multiple of 8 bytes", 0, good[:len(good)-1]},
		{"table of new topics is not a multiple of 8 bytes", 4, change(good, func(b []byte) { b[4] = 15 })},
		{"table of new topics is longer than the body", 4, change(good, func(b []byte) { b[5] = 1 })},
		{"more new topics than the table can hold", 0, change(good, func(b []byte) { b[0] = 6 })},
		{"name of a new topic is empty", table, change(good, func(b []byte) { b[table] = 0 })},
		{"name of a new topic is over the limit", table, change(good, func(b []byte) { le.PutUint16(b[table:], MaxTopicBytes+1) })},
		{"name of a new topic is longer than the table", table + 5, change(good, func(b []byte) { b[table+5] = 10 })},
		{"name of a new topic is empty", table + 12, change(good, func(b []byte) { b[0] = 3 })},
		{"table of new topics is cut short", table + 16, change(good, func(b []byte) { b[0] = 3; b[table+5] = 9; b[table+12] = 1 })},
		{"table of new topics has more bytes than its names", table + 5, change(good, func(b []byte) { b[0] = 1 })},
		{"padding of the table of new topics is not zero", table + 14, change(good, func(b []byte) { b[table+14] = 1 })},
		{"entry has no batches", 8, make([]byte, 8)},
		{"batch size differs from the bytes that are there", batch, change(good, func(b []byte) { b[batch] += 8 })},
		{"batch size differs from the bytes that are there", batch, change(good, func(b []byte) { b[batch] = 40 })},
		{"batch header is cut short", batch + 136, change(good, func(b []byte) { b[batch] -= 8; b[batch+4] = 1; cutRun(b[batch:]) })},
		{"topic number is not in the entry's table of new topics", batch + 80, change(good, func(b []byte) { b[batch+84] = 2 })},
		{"topic number of a precondition is not in the entry's table of new topics", batch + 64, change(good, func(b []byte) { b[batch+64] = 2 })},
		{"unknown batch flags", batch + 28, change(good, func(b []byte) { b[batch+28] = 2 })},
		{"padding of a record is not zero", batch + 112, change(good, func(b []byte) { b[batch+143] = 2 })},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			names, _, err := PublishBody(tt.body, nil)
			wantCorrupt(t, err, tt.offset, tt.rule)
			if len(names) != 0 {
				t.Fatal("names of a bad body")
			}
		})
	}
}

// cutRun makes the two records of batchBytes one that is 8 bytes shorter than both.
func cutRun(b []byte) { b[80] = 56 }
