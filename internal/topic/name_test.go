package topic

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// ruleBroken is the plain meaning of each rule that a single name can break.
func ruleBroken(rule, name string) bool {
	anySegment := func(values ...string) bool {
		for _, s := range strings.Split(name, "/") {
			for _, v := range values {
				if s == v {
					return true
				}
			}
		}
		return false
	}
	switch rule {
	case RuleEmpty:
		return name == ""
	case RuleTooLong:
		return len(name) > 512
	case RuleTooDeep:
		return strings.Count(name, "/") >= 32
	case RuleEmptySeg:
		return anySegment("")
	case RuleUTF8:
		return !utf8.ValidString(name)
	case RuleControl:
		return strings.IndexFunc(name, unicode.IsControl) >= 0
	case RuleReserved, RuleWildcard:
		return anySegment("*", "**")
	}
	return false
}

func TestValidateAccepts(t *testing.T) {
	for _, name := range []string{
		"a",
		"app/codestore/commits",
		"with space/dots.and-dashes/***/a*/**b",
		"straße/日本/🎼",
		"a/" + strings.Repeat("b/", 30) + "c", // 32 segments
		strings.Repeat("x", 512),
		"\u00a0/\u200b", // odd, but no control characters
	} {
		if err := Validate(name); err != nil {
			t.Errorf("Validate(%q) = %v, want nil", name, err)
		}
	}
}

func TestValidateRules(t *testing.T) {
	for _, c := range []struct{ name, rule string }{
		{"", RuleEmpty},
		{strings.Repeat("x", 513), RuleTooLong},
		{"a/" + strings.Repeat("b/", 31) + "c", RuleTooDeep},
		{"/a", RuleEmptySeg},
		{"a/", RuleEmptySeg},
		{"a//b", RuleEmptySeg},
		{"/", RuleEmptySeg},
		{"a/\xff", RuleUTF8},
		{"a/\xed\xa0\x80", RuleUTF8}, // a surrogate
		{"a\nb", RuleControl},
		{"a\x00b", RuleControl},
		{"a\x7fb", RuleControl},
		{"a\u0085b", RuleControl},
		{"*", RuleReserved},
		{"**", RuleReserved},
		{"a/*/b", RuleReserved},
		{"a/**", RuleReserved},
	} {
		err := Validate(c.name)
		var e *Error
		if !errors.As(err, &e) || e.Rule != c.rule || e.Name != c.name {
			t.Errorf("Validate(%q) = %v, want rule %q", c.name, err, c.rule)
		}
		if fromBytes := ValidateBytes([]byte(c.name)); fromBytes == nil || fromBytes.Error() != err.Error() {
			t.Errorf("ValidateBytes(%q) = %v, want %v", c.name, fromBytes, err)
		}
	}
}

func TestErrorText(t *testing.T) {
	got := Validate("a//b\n").Error()
	want := `validate topic "a//b\n": a segment is empty: remove leading, trailing and doubled slashes`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	long := Validate(strings.Repeat("é", 300)).Error()
	if want := `"` + strings.Repeat("é", 32) + `"... (600 bytes)`; !strings.Contains(long, want) {
		t.Errorf("%s does not contain %s", long, want)
	}
}

func TestEveryRuleHasHelp(t *testing.T) {
	seen := map[string]bool{(&Error{Rule: "no such rule"}).Help(): true}
	for _, rule := range []string{
		RuleEmpty, RuleTooLong, RuleTooDeep, RuleEmptySeg, RuleUTF8, RuleControl, RuleReserved, RuleWildcard,
		RuleNoFilters, RuleManyFilters,
	} {
		help := (&Error{Rule: rule}).Help()
		if seen[help] {
			t.Errorf("rule %q has no help of its own: %q", rule, help)
		}
		seen[help] = true
	}
}

func TestPartitionOf(t *testing.T) {
	for name, want := range map[string]string{
		"a": "a", "a/b": "a/b", "a/b/c": "a/b", "a/b/c/d": "a/b", "é/ü ß/x": "é/ü ß",
	} {
		if got := PartitionOf(name); got != want {
			t.Errorf("PartitionOf(%q) = %q, want %q", name, got, want)
		}
	}
}

func FuzzValidate(f *testing.F) {
	for _, s := range []string{
		"", "a", "a/b", "/", "a//b", "*", "a/**", "a*/b", "a\x80", "\u0085", "a\x7f", strings.Repeat("a/", 32), strings.Repeat("a/", 31) + "a",
		strings.Repeat("x", 513),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		err := Validate(name)
		if (err == nil) != slowValid(name) {
			t.Fatalf("Validate(%q) = %v, definition says valid is %v", name, err, slowValid(name))
		}
		var e *Error
		if errors.As(err, &e) && !ruleBroken(e.Rule, name) {
			t.Fatalf("%q does not break the rule %q", name, e.Rule)
		}
		if err == nil && PartitionOf(name) != slowPartition(name) {
			t.Fatalf("PartitionOf(%q) = %q", name, PartitionOf(name))
		}
	})
}
