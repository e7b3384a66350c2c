package wire

import (
	"strings"
	"unicode/utf8"

	"github.com/cantus-bus/cantus/internal/record"
)

// AppendSubscribe adds SUBSCRIBE. Body:
//
//	 0 u8 start kind  1 u8 0  2 u16 filters  4 u32 wait_ms  8 u64 value  16 u64 prev  24 u64 min seq  32 u64 credit
//	40 string filter...
func AppendSubscribe(dst []byte, id uint32, s *Subscribe) []byte {
	start := len(dst)
	filters := s.Filters[:min(len(s.Filters), MaxFilters+1)] // one too many, so that the receiver says so
	dst = begin(dst)
	dst = append(dst, byte(s.Start), 0)
	dst = le.AppendUint16(dst, uint16(len(filters)))
	dst = le.AppendUint32(dst, s.WaitMS)
	dst = le.AppendUint64(dst, s.Value)
	dst = le.AppendUint64(dst, s.Prev)
	dst = le.AppendUint64(dst, s.MinSeq)
	dst = le.AppendUint64(dst, s.Credit)
	for _, f := range filters {
		dst = appendString(dst, f)
	}
	return end(dst, start, TSubscribe, id)
}

// DecodeSubscribe parses the body of SUBSCRIBE. Whether filters are good is the caller's to see.
func DecodeSubscribe(b []byte) (Subscribe, error) {
	d := decoder{b: b}
	s := Subscribe{Start: StartKind(d.u8())}
	d.zero(1)
	filters := int(d.u16())
	s.WaitMS = d.u32()
	s.Value, s.Prev, s.MinSeq, s.Credit = d.u64(), d.u64(), d.u64(), d.u64()
	if s.Start > StartAgo {
		d.fail(CodeProtocol, "unknown start kind")
	}
	s.Filters = d.filters(filters)
	if err := d.finish("SUBSCRIBE"); err != nil {
		return Subscribe{}, err
	}
	return s, nil
}

// filters takes n filters.
func (d *decoder) filters(n int) []string {
	switch {
	case d.err != nil:
		return nil
	case n == 0:
		d.fail(CodeBadFilter, "no filters")
		return nil
	case n > MaxFilters:
		d.fail(CodeTooManyFilters, "filters are more than the limit")
		d.err.Detail = MaxFilters
		return nil
	case n*nameMinBytes > len(d.b)-d.off:
		d.fail(CodeProtocol, "filters are more than the body can hold")
		return nil
	}
	out := make([]string, n)
	for i := range out {
		out[i] = d.name(MaxFilterBytes, CodeBadFilter, "filter")
	}
	return out
}

// AppendSubscribed adds SUBSCRIBED. Body: u64 next, u64 head, u64 oldest.
func AppendSubscribed(dst []byte, id uint32, s *Subscribed) []byte {
	start := len(dst)
	dst = begin(dst)
	dst = le.AppendUint64(dst, s.Next)
	dst = le.AppendUint64(dst, s.Head)
	dst = le.AppendUint64(dst, s.Oldest)
	return end(dst, start, TSubscribed, id)
}

// DecodeSubscribed parses the body of SUBSCRIBED.
func DecodeSubscribed(b []byte) (Subscribed, error) {
	d := decoder{b: b}
	s := Subscribed{Next: d.u64(), Head: d.u64(), Oldest: d.u64()}
	if err := d.finish("SUBSCRIBED"); err != nil {
		return Subscribed{}, err
	}
	return s, nil
}

// AppendCredit adds CREDIT: the client is ready for so many more bytes of DATA. Body: u64 bytes.
func AppendCredit(dst []byte, id uint32, bytes uint64) []byte {
	return end(le.AppendUint64(begin(dst), bytes), len(dst), TCredit, id)
}

// DecodeCredit parses the body of CREDIT.
func DecodeCredit(b []byte) (uint64, error) { return decodeU64("CREDIT", b) }

// AppendSeq adds PROGRESS (a seq that is safe to resume after) or CAUGHT_UP (the head at opening). Body: u64 seq.
func AppendSeq(dst []byte, t Type, id uint32, seq uint64) []byte {
	return end(le.AppendUint64(begin(dst), seq), len(dst), t, id)
}

// DecodeSeq parses the body of PROGRESS and CAUGHT_UP.
func DecodeSeq(b []byte) (uint64, error) { return decodeU64("PROGRESS or CAUGHT_UP", b) }

func decodeU64(frame string, b []byte) (uint64, error) {
	d := decoder{b: b}
	v := d.u64()
	if err := d.finish(frame); err != nil {
		return 0, err
	}
	return v, nil
}

// AppendTopicNames adds TOPIC_NAMES, as many frames as MaxNamesPerFrame asks for. Body:
//
//	0 u16 count  2 [6]u8 0
//	8 {u32 id, string name}... count times
func AppendTopicNames(dst []byte, names []TopicName) []byte {
	for len(names) > 0 {
		part := names[:min(len(names), MaxNamesPerFrame)]
		start := len(dst)
		dst = begin(dst)
		dst = le.AppendUint64(dst, uint64(len(part)))
		for i := range part {
			dst = le.AppendUint32(dst, part[i].ID)
			dst = appendString(dst, part[i].Name)
		}
		dst = end(dst, start, TTopicNames, 0)
		names = names[len(part):]
	}
	return dst
}

// DecodeTopicNames parses the body of TOPIC_NAMES.
func DecodeTopicNames(b []byte) ([]TopicName, error) {
	d := decoder{b: b}
	count := d.count(MaxNamesPerFrame, 4+nameMinBytes, CodeProtocol, "names")
	d.zero(6)
	if count == 0 {
		d.fail(CodeProtocol, "no names")
	}
	names := make([]TopicName, count)
	for i := range names {
		names[i] = TopicName{ID: d.u32(), Name: d.name(record.MaxTopicBytes, CodeProtocol, "topic")}
	}
	if err := d.finish("TOPIC_NAMES"); err != nil {
		return nil, err
	}
	return names, nil
}

// AppendError adds ERROR (id 0: the connection ends) or ENDED (a subscription ended). The message is cut to MaxMessage. Body:
//
//	 0 u16 code  2 [6]u8 0  8 u64 detail
//	16 string message
func AppendError(dst []byte, t Type, id uint32, e *Error) []byte {
	start := len(dst)
	dst = begin(dst)
	dst = le.AppendUint64(dst, uint64(e.Code))
	dst = le.AppendUint64(dst, e.Detail)
	dst = appendString(dst, cutText(e.Message, MaxMessage))
	return end(dst, start, t, id)
}

// cutText makes s UTF-8 and cuts it to at most n bytes between two characters: an error's text must not spoil its frame.
func cutText(s string, n int) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// DecodeError parses the body of ERROR and ENDED.
func DecodeError(b []byte) (Error, error) {
	d := decoder{b: b}
	e := Error{Code: Code(d.u16())}
	d.zero(6)
	e.Detail = d.u64()
	e.Message = d.str(MaxMessage, CodeProtocol, "message")
	if err := d.finish("ERROR or ENDED"); err != nil {
		return Error{}, err
	}
	return e, nil
}
