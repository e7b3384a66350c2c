package wire

import "github.com/cantus-bus/cantus/internal/record"

// nameMinBytes is a name of one byte with its length.
const nameMinBytes = 2 + 1

// AppendDefineTopics adds DEFINE_TOPICS, as many frames as MaxNamesPerFrame asks for. Body:
//
//	0 u32 first alias  4 u16 count  6 u16 0
//	8 string name... count times
func AppendDefineTopics(dst []byte, t *DefineTopics) []byte {
	first, names := t.FirstAlias, t.Names
	for len(names) > 0 {
		part := names[:min(len(names), MaxNamesPerFrame)]
		start := len(dst)
		dst = begin(dst)
		dst = le.AppendUint32(dst, first)
		dst = le.AppendUint32(dst, uint32(len(part)))
		for _, name := range part {
			dst = appendString(dst, name)
		}
		dst = end(dst, start, TDefineTopics, 0)
		first, names = first+uint32(len(part)), names[len(part):]
	}
	return dst
}

// DecodeDefineTopics parses the body of DEFINE_TOPICS. Whether names are good topics and aliases dense is the caller's to see.
func DecodeDefineTopics(b []byte) (DefineTopics, error) {
	d := decoder{b: b}
	t := DefineTopics{FirstAlias: d.u32()}
	count := d.count(MaxNamesPerFrame, nameMinBytes, CodeProtocol, "names")
	d.zero(2)
	if count == 0 {
		d.fail(CodeProtocol, "no names")
	}
	t.Names = make([]string, count)
	for i := range t.Names {
		t.Names[i] = d.name(record.MaxTopicBytes, CodeBadTopic, "topic")
	}
	if err := d.finish("DEFINE_TOPICS"); err != nil {
		return DefineTopics{}, err
	}
	return t, nil
}

// AppendOpenProducer adds OPEN_PRODUCER. Body: [16]byte producer id.
func AppendOpenProducer(dst []byte, id uint32, o OpenProducer) []byte {
	return end(append(begin(dst), o.ID[:]...), len(dst), TOpenProducer, id)
}

// DecodeOpenProducer parses the body of OPEN_PRODUCER.
func DecodeOpenProducer(b []byte) (OpenProducer, error) {
	d := decoder{b: b}
	var o OpenProducer
	copy(o.ID[:], d.take(len(o.ID)))
	if o.ID == (record.ProducerID{}) {
		d.fail(CodeProtocol, "producer id is zero")
	}
	if err := d.finish("OPEN_PRODUCER"); err != nil {
		return OpenProducer{}, err
	}
	return o, nil
}

// AppendProducerOpened adds PRODUCER_OPENED. Body:
//
//	0 u16 code  2 u16 0  4 u32 epoch  8 u64 detail  16 u64 last number  24 u64 last seq
func AppendProducerOpened(dst []byte, id uint32, o ProducerOpened) []byte {
	start := len(dst)
	dst = begin(dst)
	dst = le.AppendUint32(dst, uint32(o.Code))
	dst = le.AppendUint32(dst, o.Epoch)
	dst = le.AppendUint64(dst, o.Detail)
	dst = le.AppendUint64(dst, o.LastNumber)
	dst = le.AppendUint64(dst, o.LastSeq)
	return end(dst, start, TProducerOpened, id)
}

// DecodeProducerOpened parses the body of PRODUCER_OPENED.
func DecodeProducerOpened(b []byte) (ProducerOpened, error) {
	d := decoder{b: b}
	o := ProducerOpened{Code: Code(d.u16())}
	d.zero(2)
	o.Epoch = d.u32()
	o.Detail, o.LastNumber, o.LastSeq = d.u64(), d.u64(), d.u64()
	if err := d.finish("PRODUCER_OPENED"); err != nil {
		return ProducerOpened{}, err
	}
	return o, nil
}

// AppendAck adds ACK. Body:
//
//	0 u16 code  2 u16 index  4 u32 count  8 u64 first seq  16 i64 time  24 u64 detail
func AppendAck(dst []byte, id uint32, a *Ack) []byte {
	start := len(dst)
	dst = begin(dst)
	dst = le.AppendUint16(dst, uint16(a.Code))
	dst = le.AppendUint16(dst, a.Index)
	dst = le.AppendUint32(dst, a.Count)
	dst = le.AppendUint64(dst, a.FirstSeq)
	dst = le.AppendUint64(dst, uint64(a.Time))
	dst = le.AppendUint64(dst, a.Detail)
	return end(dst, start, TAck, id)
}

// DecodeAck parses the body of ACK.
func DecodeAck(b []byte) (Ack, error) {
	d := decoder{b: b}
	a := Ack{Code: Code(d.u16()), Index: d.u16(), Count: d.u32(), FirstSeq: d.u64(), Time: int64(d.u64()), Detail: d.u64()}
	if err := d.finish("ACK"); err != nil {
		return Ack{}, err
	}
	return a, nil
}
