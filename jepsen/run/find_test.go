package run

import (
	"slices"
	"strings"
	"testing"
)

// TestFind: all without names, else those that are named, in that order; an unknown one is told with those that there are.
func TestFind(t *testing.T) {
	all := []string{"a", "b", "c"}
	for _, test := range []struct {
		names, want []string
		err         string
	}{
		{nil, all, ""}, {[]string{"c", "a"}, []string{"c", "a"}, ""}, {[]string{"b", "b"}, []string{"b", "b"}, ""},
		{[]string{"a", "x"}, nil, `letter "x" is unknown: there are a, b, c`},
	} {
		got, err := find("letter", all, test.names, strings.Clone)
		if !slices.Equal(got, test.want) || (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
			t.Errorf("%q: %q, %v", test.names, got, err)
		}
	}
}
