package wire

import "github.com/cantus-bus/cantus/internal/record"

// QueryKind says what a QUERY wants.
type QueryKind uint8

const (
	QueryMessage  QueryKind = iota // the message with seq Query.Seq
	QueryLast                      // the last message of a topic
	QueryLastEach                  // the last message of each topic under filters, a page at a time
)

// Query asks for single messages. It is answered by ANSWER, or by ERROR with its id.
type Query struct {
	Kind         QueryKind
	Linearizable bool     // what was committed anywhere before the query counts
	Filters      []string // none of a QueryMessage; the topic of a QueryLast
	WaitMS       uint32   // how long the node may take until it has applied what the query needs
	Seq          uint64   // the message's; of the others: messages above it do not count, 0 all visible ones do
	MinSeq       uint64   // the node must have applied this before it answers
	After        uint64   // of a QueryLastEach: Next of the page before, 0 the first
	Count        uint32   // of a QueryLastEach: messages at most, 0 the most that a page holds
	Bytes        uint32   // of a QueryLastEach: of records and topics, about; 0 the server's choice
}

// Answer has the messages that a Query asked for.
type Answer struct {
	Seq    uint64 // the message's; of a QueryLastEach the newest seq that counted
	Next   uint64 // Query.After of the next page, 0 there is none
	Count  uint32
	Run    []byte   // Count records; a view after decoding
	Topics []string // Count names: of each record in order
}

// AppendQuery adds QUERY. Body:
//
//	 0 u8 kind  1 u8 linearizable (0, 1)  2 u16 filters  4 u32 wait_ms  8 u64 seq  16 u64 min seq  24 u64 after  32 u32 count  36 u32 bytes
//	40 string filter...
func AppendQuery(dst []byte, id uint32, q *Query) []byte {
	start := len(dst)
	filters := q.Filters[:min(len(q.Filters), MaxFilters+1)] // one too many, so that the receiver says so
	dst = begin(dst)
	dst = append(dst, byte(q.Kind), 0)
	if q.Linearizable {
		dst[len(dst)-1] = 1
	}
	dst = le.AppendUint16(dst, uint16(len(filters)))
	dst = le.AppendUint32(dst, q.WaitMS)
	dst = le.AppendUint64(dst, q.Seq)
	dst = le.AppendUint64(dst, q.MinSeq)
	dst = le.AppendUint64(dst, q.After)
	dst = le.AppendUint32(dst, q.Count)
	dst = le.AppendUint32(dst, q.Bytes)
	for _, f := range filters {
		dst = appendString(dst, f)
	}
	return end(dst, start, TQuery, id)
}

// DecodeQuery parses the body of QUERY. Whether filters are good is the caller's to see.
func DecodeQuery(b []byte) (Query, error) {
	d := decoder{b: b}
	q := Query{Kind: QueryKind(d.u8())}
	linearizable := d.u8()
	q.Linearizable = linearizable == 1
	filters := int(d.u16())
	q.WaitMS = d.u32()
	q.Seq, q.MinSeq, q.After = d.u64(), d.u64(), d.u64()
	q.Count, q.Bytes = d.u32(), d.u32()
	switch {
	case q.Kind > QueryLastEach:
		d.fail(CodeProtocol, "unknown kind")
	case linearizable > 1:
		d.fail(CodeProtocol, "linearizable is neither 0 nor 1")
	case q.Kind == QueryMessage && filters != 0:
		d.fail(CodeProtocol, "filters with a seq")
	case q.Kind == QueryLast && filters != 1:
		d.fail(CodeProtocol, "not one topic")
	case q.Kind != QueryLastEach && (q.After != 0 || q.Count != 0 || q.Bytes != 0):
		d.fail(CodeProtocol, "a page of one message")
	}
	if q.Kind != QueryMessage {
		q.Filters = d.filters(filters)
	}
	if err := d.finish("QUERY"); err != nil {
		return Query{}, err
	}
	return q, nil
}

// AppendAnswer adds ANSWER. Body:
//
//	 0 u64 seq  8 u64 next  16 u32 count  20 u32 bytes of the records
//	24 records, padded, each with id, seq and time
//	.. string topic... count times
func AppendAnswer(dst []byte, id uint32, a *Answer) []byte {
	start := len(dst)
	dst = begin(dst)
	dst = le.AppendUint64(dst, a.Seq)
	dst = le.AppendUint64(dst, a.Next)
	dst = le.AppendUint32(dst, a.Count)
	dst = le.AppendUint32(dst, uint32(len(a.Run)))
	dst = append(dst, a.Run...)
	for _, t := range a.Topics {
		dst = appendString(dst, t)
	}
	return end(dst, start, TAnswer, id)
}

// DecodeAnswer checks the records and their count. Run is a view into b.
func DecodeAnswer(b []byte) (Answer, error) {
	d := decoder{b: b}
	a := Answer{Seq: d.u64(), Next: d.u64(), Count: d.u32()}
	a.Run = d.take(int(d.u32()))
	switch {
	case d.err != nil:
	case a.Count > MaxFilters:
		d.fail(CodeProtocol, "messages are more than the limit")
	case int(a.Count)*nameMinBytes > len(d.b)-d.off:
		d.fail(CodeProtocol, "topics are more than the body can hold")
	default:
		a.Topics = make([]string, a.Count)
		for i := range a.Topics {
			a.Topics[i] = d.name(record.MaxTopicBytes, CodeProtocol, "topic")
		}
	}
	if err := d.finish("ANSWER"); err != nil {
		return Answer{}, err
	}
	if err := record.ValidateRun(a.Run, int(a.Count)); err != nil {
		return Answer{}, protocolError("ANSWER: %v", err)
	}
	return a, nil
}
