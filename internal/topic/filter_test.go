package topic

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestParseFilter(t *testing.T) {
	for _, c := range []struct {
		in, path string
		subtree  bool
	}{
		{"a", "a", false},
		{"a/b c/d.e", "a/b c/d.e", false},
		{"a/**", "a", true},
		{"a/b/**", "a/b", true},
		{"**", "", true},
		{strings.Repeat("x", 512) + "/**", strings.Repeat("x", 512), true},
	} {
		f, err := ParseFilter(c.in)
		if err != nil || f.Path() != c.path || f.Subtree() != c.subtree || f.String() != c.in {
			t.Errorf("ParseFilter(%q) = %q %v %q, %v", c.in, f.Path(), f.Subtree(), f, err)
		}
	}
}

func TestParseFilterRules(t *testing.T) {
	for _, c := range []struct{ in, rule string }{
		{"", RuleEmpty},
		{"/**", RuleEmptySeg},
		{"a//**", RuleEmptySeg},
		{"/a", RuleEmptySeg},
		{"*", RuleWildcard},
		{"a/*", RuleWildcard},
		{"a/*/b", RuleWildcard},
		{"a/**/b", RuleWildcard},
		{"**/a", RuleWildcard},
		{"**/**", RuleWildcard},
		{"a/**/**", RuleWildcard},
		{"a\t/**", RuleControl},
		{"a\xff/**", RuleUTF8},
		{strings.Repeat("x", 513) + "/**", RuleTooLong},
		{strings.Repeat("x/", 33) + "**", RuleTooDeep},
	} {
		_, err := ParseFilter(c.in)
		var e *Error
		if !errors.As(err, &e) || e.Rule != c.rule || e.Name != c.in {
			t.Errorf("ParseFilter(%q): %v, want rule %q", c.in, err, c.rule)
		}
	}
	_, err := ParseFilter("a/*/b")
	want := `parse filter "a/*/b": a wildcard stands elsewhere than in a last /**: subscribe to a topic, to a/b/** or to **`
	if err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestFilterMatch(t *testing.T) {
	for _, c := range []struct {
		filter, name string
		want         bool
	}{
		{"app/**", "app", true},
		{"app/**", "app/x", true},
		{"app/**", "app/x/y", true},
		{"app/**", "app2", false},
		{"app/**", "app-x/y", false},
		{"app", "app", true},
		{"app", "app/x", false},
		{"**", "anything/at/all", true},
	} {
		f, err := ParseFilter(c.filter)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Match(c.name); got != c.want {
			t.Errorf("%q.Match(%q) = %v", c.filter, c.name, got)
		}
	}
	if (Filter{}).Match("") || (Filter{}).Match("a") {
		t.Error("the zero Filter matches something")
	}
}

func TestFiltersNormalise(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"b a", "a b"},
		{"a a", "a"},
		{"a a/**", "a/**"},
		{"a/** a/b/** a/b/c a/b-c", "a/**"},
		{"a/b/** a-b a", "a a-b a/b/**"},
		{"x **  y/**", "**"},
		{"a/b a/b/c", "a/b a/b/c"},
	} {
		got := strings.Join(mustFilters(t, strings.Fields(c.in)...).Strings(), " ")
		if got != c.want {
			t.Errorf("%s: got %s, want %s", c.in, got, c.want)
		}
	}
}

func TestFilterCovers(t *testing.T) {
	for _, c := range []struct {
		f, g string
		want bool
	}{
		{"**", "a/**", true}, {"a/**", "**", false}, {"a/**", "a", true}, {"a", "a/**", false}, {"a/**", "a/b/**", true},
		{"a/**", "ab", false}, {"a", "a", true}, {"a", "b", false},
	} {
		f, g := mustFilters(t, c.f)[0], mustFilters(t, c.g)[0]
		if got := f.Covers(g); got != c.want {
			t.Errorf("%q.Covers(%q) = %v", c.f, c.g, got)
		}
	}
}

func TestFiltersLimits(t *testing.T) {
	wantRule := func(err error, rule string) {
		t.Helper()
		var e *Error
		if !errors.As(err, &e) || e.Rule != rule {
			t.Errorf("got %v, want rule %q", err, rule)
		}
	}
	list := make([]string, MaxFilters+1)
	for i := range list {
		list[i] = fmt.Sprintf("t/%d", i)
	}
	_, err := ParseFilters(list)
	wantRule(err, RuleManyFilters)
	_, err = ParseFilters(nil)
	wantRule(err, RuleNoFilters)
	_, err = NewFilters()
	wantRule(err, RuleNoFilters)
	_, err = NewFilters(Filter{path: "a"}, Filter{})
	wantRule(err, RuleEmpty)
	_, err = ParseFilters([]string{"a", "b/*"})
	wantRule(err, RuleWildcard)
	fs, err := ParseFilters(list[:MaxFilters])
	if err != nil || len(fs) != MaxFilters {
		t.Errorf("%d filters, %v", len(fs), err)
	}
}

func TestFiltersAnyBelow(t *testing.T) {
	fs := mustFilters(t, "a", "a-b/c", "a/b", "a/b/c/d", "b/**", "c.d")
	for path, want := range map[string]bool{
		"a": true, "a/b": true, "a/b/c": true, "a/b/c/d": false, "a-b": true, "b": false, "c": false, "c.d": false, "d": false,
	} {
		if got := fs.anyBelow(path); got != want {
			t.Errorf("anyBelow(%q) = %v", path, got)
		}
	}
}

// TestNewFiltersKeepsItsInput guards the caller's slice, which normalising sorts and cuts.
func TestNewFiltersKeepsItsInput(t *testing.T) {
	in := []Filter{{path: "b"}, {path: "a", subtree: true}, {path: "a/x"}}
	before := slices.Clone(in)
	fs, err := NewFilters(in...)
	if err != nil || !slices.Equal(in, before) || len(fs) != 2 {
		t.Errorf("got %v, input is now %v, %v", fs, in, err)
	}
}

func slowFilterValid(s string) bool {
	if s == "**" {
		return true
	}
	segs := strings.Split(s, "/")
	if last := len(segs) - 1; last > 0 && segs[last] == "**" {
		segs = segs[:last]
	}
	return slowValid(strings.Join(segs, "/"))
}

func FuzzParseFilter(f *testing.F) {
	for _, s := range []string{
		"", "a", "a/**", "**", "/**", "a/*/b", "a/**/b", "**/**", "*", strings.Repeat("a/", 32) + "**", "a\x80/**",
	} {
		f.Add(s, "a/b")
	}
	f.Fuzz(func(t *testing.T, s, name string) {
		filter, err := ParseFilter(s)
		if (err == nil) != slowFilterValid(s) {
			t.Fatalf("ParseFilter(%q): %v, definition says valid is %v", s, err, slowFilterValid(s))
		}
		var e *Error
		if errors.As(err, &e) && e.Rule != RuleEmptySeg && !ruleBroken(e.Rule, strings.TrimSuffix(s, "/**")) {
			t.Fatalf("%q does not break the rule %q", s, e.Rule)
		}
		if err != nil {
			return
		}
		if filter.String() != s {
			t.Fatalf("%q reads back as %q", s, filter.String())
		}
		if slowValid(name) && filter.Match(name) != slowMatch(s, name) {
			t.Fatalf("%q.Match(%q) = %v", s, name, filter.Match(name))
		}
	})
}
