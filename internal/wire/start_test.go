package wire

import (
	"strings"
	"testing"
	"time"
)

func TestParseStart(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		in    string
		kind  StartKind
		value uint64
	}{
		{"", StartFirst, 0},
		{"first", StartFirst, 0},
		{"now", StartNow, 0},
		{"1042", StartSeq, 1042},
		{"0", StartSeq, 0},
		{"-5m", StartAgo, uint64(5 * time.Minute)},
		{"-1h30m", StartAgo, uint64(90 * time.Minute)},
		{at.Format(time.RFC3339), StartTime, uint64(at.UnixNano())},
		{"2026-01-31T14:00:00.5+02:00", StartTime, uint64(at.Add(500 * time.Millisecond).UnixNano())},
	} {
		kind, value, err := ParseStart(c.in)
		if err != nil || kind != c.kind || value != c.value {
			t.Errorf("ParseStart(%q) = %v, %d, %v; want %v, %d", c.in, kind, value, err, c.kind, c.value)
		}
	}
	for _, in := range []string{"last", "-5", "--5m", "5m", "-1x", "2026-01-31", "1e3", "1960-01-01T00:00:00Z", "18446744073709551616"} {
		if _, _, err := ParseStart(in); err == nil || !strings.Contains(err.Error(), "want first") {
			t.Errorf("ParseStart(%q): error %v, want one that says what is accepted", in, err)
		}
	}
}
