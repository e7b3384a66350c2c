package plan

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// sample is a plan with every kind of rule.
func sample(tb testing.TB) *Plan {
	p, err := New("ab/c", []uint32{0, 3, 1 << 20}, []Rule{
		{"ab/c", Subtree, []int{0}},
		{"ab/c/d", Spread, []int{1, 2, 1}},
		{"ab/c/d", Exact, []int{2}},
		{"ab/c/d e/f", Subtree, []int{1}},
		{"ab/c/d/ü", Exact, []int{0}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func FuzzDecode(f *testing.F) {
	f.Add(sample(f).Append(nil))
	f.Add(Default("a").Append(nil))
	f.Add([]byte{Version})
	f.Fuzz(func(t *testing.T, src []byte) {
		p, err := Decode(src)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("not an ErrInvalid: %v", err)
			}
			return
		}
		if again := p.Append(nil); !bytes.Equal(again, src) {
			t.Fatalf("%x was read, %x is written", src, again)
		}
		for _, r := range p.Rules() {
			if s, want := p.StoreOf(r.Path), storeByRules(p, r.Path); s != want || s < 0 || s >= p.Len() {
				t.Fatalf("%q: store %d of %d, by the rules %d", r.Path, s, p.Len(), want)
			}
		}
	})
}

func TestDecodeRefuses(t *testing.T) {
	good := sample(t).Append(nil)
	change := func(at int, b ...byte) []byte { return append(append(bytes.Clone(good[:at]), b...), good[at+1:]...) }
	for _, c := range []struct {
		name, want string
		src        []byte
	}{
		{"nothing", "at byte 0: 1 bytes wanted, 0 left", nil},
		{"another version", "version 2, this program reads version 1", change(0, 2)},
		{"a long varint", "needless zero bytes", change(1, 0x84, 0)},
		{"a huge varint", "above 64 bits", change(1, bytes.Repeat([]byte{0xff}, 11)...)},
		{"a long name", "number 127, at most", change(1, 127)},
		{"no stores", "0 stores, want 1 to 1024", []byte{1, 1, 'a', 0, 0}},
		{"no rules", "0 rules, want 1", []byte{1, 1, 'a', 1, 0, 0}},
		{"more stores than bytes", "number 9, at most", []byte{1, 1, 'a', 9, 0, 1}},
		{"trailing bytes", "1 bytes after the last rule", append(bytes.Clone(good), 0)},
		{"a path that hides what it shares", "shares more", []byte{1, 3, 'a', '/', 'b', 1, 0, 1, 2, 1, 'b', 1, 0}},
		{"another kind", "unknown kind 3", []byte{1, 1, 'a', 1, 0, 1, 1, 0, 3, 0}},
		{"a store that is not", "number 1, at most 0", []byte{1, 1, 'a', 1, 0, 1, 1, 0, 1, 1}},
		{"rules out of order", "rule 2 is out of order", []byte{1, 3, 'a', '/', 'b', 1, 0, 3, 3, 0, 1, 0, 3, 2, '/', 'd', 1, 0, 4, 1, 'c', 1, 0}},
		{"the same rule twice", "rule 1 is out of order", []byte{1, 1, 'a', 1, 0, 2, 1, 0, 1, 0, 1, 0, 1, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Decode(c.src)
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want ErrInvalid with %q", err, c.want)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	all := Rule{"a/b", Subtree, []int{0}}
	for _, c := range []struct {
		name, want string
		partition  string
		ids        []uint32
		rules      []Rule
	}{
		{"a topic as partition", "one or two segments", "a/b/c", []uint32{0}, []Rule{{"a/b/c", Subtree, []int{0}}}},
		{"a bad name", "a segment is empty", "a//b", []uint32{0}, nil},
		{"no stores", "0 stores", "a/b", nil, []Rule{all}},
		{"no rules", "0 rules", "a/b", []uint32{0}, nil},
		{"no rule for all", "no rule for the whole partition", "a/b", []uint32{0}, []Rule{{"a/b/c", Subtree, []int{0}}}},
		{"only the topic itself", "no rule for the whole partition", "a/b", []uint32{0}, []Rule{{"a/b", Exact, []int{0}}}},
		{"equal ids", "store id 4 is out of order", "a/b", []uint32{4, 4}, []Rule{all}},
		{"a high id", "above 2147483647", "a/b", []uint32{1 << 31}, []Rule{all}},
		{"a foreign path", "outside the partition", "a/b", []uint32{0}, []Rule{all, {"a/bc", Subtree, []int{0}}}},
		{"below a partition of one segment", "outside the partition", "a", []uint32{0}, []Rule{{"a", Subtree, []int{0}}, {"a/b", Subtree, []int{0}}}},
		{"a bad path", "a segment is empty", "a/b", []uint32{0}, []Rule{all, {"a/b/", Subtree, []int{0}}}},
		{"an unknown kind", "unknown kind 7", "a/b", []uint32{0}, []Rule{all, {"a/b/c", 7, []int{0}}}},
		{"a spread over one", "spread over 1 stores", "a/b", []uint32{0}, []Rule{all, {"a/b/c", Spread, []int{0}}}},
		{"two stores without spread", "2 stores, want one", "a/b", []uint32{0, 1}, []Rule{all, {"a/b/c", Subtree, []int{0, 1}}}},
		{"a store out of range", "store 1 of 1", "a/b", []uint32{0}, []Rule{all, {"a/b/c", Subtree, []int{1}}}},
		{"a store that nothing names", "no rule names store 1", "a/b", []uint32{0, 1}, []Rule{all}},
		{"two rules for the same", "second rule", "a/b", []uint32{0}, []Rule{all, {"a/b/c", Subtree, []int{0}}, {"a/b/c", Spread, []int{0, 0}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(c.partition, c.ids, c.rules)
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want ErrInvalid with %q", err, c.want)
			}
		})
	}
}

func TestStoreOfDoesNotAllocate(t *testing.T) {
	p := sample(t)
	for name, want := range map[string]uint32{
		"ab/c": 0, "ab/c/x": 0, "ab/c/d": 1 << 20, "ab/c/d/ü": 0, "ab/c/d e/f/g": 3, "ab/c/d e": 0, "ab/c/d ": 0,
	} {
		var i int
		if n := testing.AllocsPerRun(10, func() { i = p.StoreOf(name) }); n != 0 || p.ID(i) != want {
			t.Errorf("%q: store %d, want %d; %v allocations", name, p.ID(i), want, n)
		}
	}
	for _, name := range []string{"ab", "ab/cd", "ab/cd/e", "x/y"} {
		if i := p.StoreOf(name); i != -1 {
			t.Errorf("%q: store %d, want none", name, i)
		}
	}
}

func BenchmarkStoreOf(b *testing.B) {
	t := millionTopics(b, "one partition")
	r, err := Compute(t, nil, Options{Budget: 256})
	if err != nil || len(r.Plans) != 1 {
		b.Fatal(len(r.Plans), err)
	}
	p := r.Plans[0]
	b.ReportAllocs()
	names := []string{"shop/orders/3/17/55/0123456", "shop/orders/7/1/2/0000001", "shop/orders/9/36/100/0999999", "shop/orders/new"}
	for i := 0; b.Loop(); i++ {
		p.StoreOf(names[i%len(names)])
	}
	b.ReportMetric(float64(len(p.Rules())), "rules")
}
