package dataset

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// PayloadKind says what payloads look like.
type PayloadKind string

const (
	// Text is words and punctuation as in source files: compresses to about a third.
	Text PayloadKind = "text"
	// Random does not compress.
	Random PayloadKind = "random"
)

// ParsePayloadKind reads "text" or "random".
func ParsePayloadKind(s string) (PayloadKind, error) {
	switch k := PayloadKind(s); k {
	case Text, Random:
		return k, nil
	}
	return "", fmt.Errorf("payload %q is neither text nor random", s)
}

// AppendPayload adds the size bytes of row number to dst. Equal arguments give equal bytes, on every machine.
func (k PayloadKind) AppendPayload(dst []byte, number uint64, size int) []byte {
	rng := Rand{State: number}
	if k == Random {
		return rng.AppendBytes(dst, size)
	}
	return rng.AppendWords(dst, size)
}

// Rand is a splitmix64 generator: small, fast, and the same everywhere. After S. Vigna's public domain splitmix64.c.
type Rand struct{ State uint64 }

// Next is the next 64 random bits.
func (r *Rand) Next() uint64 {
	r.State += 0x9e3779b97f4a7c15
	z := r.State
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Below is a random number in [0, n); n >= 1.
func (r *Rand) Below(n int) int { return int(r.Next() >> 1 % uint64(n)) }

// AppendBytes adds n random bytes.
func (r *Rand) AppendBytes(dst []byte, n int) []byte {
	for ; n >= 8; n -= 8 {
		dst = binary.LittleEndian.AppendUint64(dst, r.Next())
	}
	for last := r.Next(); n > 0; n-- {
		dst = append(dst, byte(last))
		last >>= 8
	}
	return dst
}

// AppendWords adds n bytes of words; the last may be cut.
func (r *Rand) AppendWords(dst []byte, n int) []byte {
	end := len(dst) + n
	for len(dst) < end {
		for bits := r.Next(); bits != 0 && len(dst) < end; bits >>= 8 {
			dst = append(dst, words[bits&0xff]...)
		}
	}
	return dst[:end]
}

// words are 256 pieces of text (some stand twice), so that one byte picks one.
var words = func() (list [256]string) {
	pieces := strings.Split(`if |err |!= |nil |{| return |}| func |(ctx |)| for |range |:= |= |string |int |self.|def |import |
    |
        |
|"name": |"value": |"state": |true|false|, |: |"|0|1|2|len(|module |args |result |node |config |test |assert |equal |`+
		`log.|debug |error |message |time |now |set |get |key |list |append |file |path |open |close |read |write |user |`+
		`group |host |port |server |client |request |response |data |type |struct |class |None |not |in |and |or |# the |`+
		`a |of |to |is |with |from |this |when |version |update |remove |add |fix |index |count |size |max |min `, "|")
	for i := range list {
		list[i] = pieces[i%len(pieces)]
	}
	return list
}()
