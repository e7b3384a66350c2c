package units

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{"64MiB": 64 << 20, "1GiB": 1 << 30, "1 KiB": 1024, "64MB": 64_000_000, "17": 17, "0": 0, "1.5KiB": 1536} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "MiB", "64XB", "-1MiB", "ten", "99999999999GiB"} {
		_, err := ParseSize(text)
		if err == nil || !strings.Contains(err.Error(), "64MiB") {
			t.Errorf("ParseSize(%q): error %v shows no example", text, err)
		}
	}
}

func TestParseCount(t *testing.T) {
	for text, want := range map[string]int64{"4M": 4_000_000, "1_000": 1000, "250k": 250_000, "1.5k": 1500, "0": 0} {
		if got, err := ParseCount(text); err != nil || got != want {
			t.Errorf("ParseCount(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "k", "-3", "1.2345k", "4MiB", "9999999999G"} {
		if got, err := ParseCount(text); err == nil {
			t.Errorf("ParseCount(%q) = %d, want an error", text, got)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{"5ms": 5 * time.Millisecond, "7d": 168 * time.Hour, "1h30m": 90 * time.Minute} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "5", "5 minutes", "-3s", "d", "-1d"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("ParseDuration(%q) = %v, want an error", text, got)
		}
	}
}

func TestPrint(t *testing.T) {
	for got, want := range map[string]string{
		Size(64 << 20):                    "64MiB",
		Size(1_270_000):                   "1.21MiB",
		Size(17):                          "17B",
		Size(-2048):                       "-2KiB",
		Count(950):                        "950",
		Count(12_345):                     "12.3k",
		Count(4_000_000):                  "4M",
		Rate(310_000):                     "310k/s",
		Rate(0.5):                         "0.5/s",
		Millis(210 * time.Microsecond):    "0.21ms",
		Millis(3100 * time.Millisecond):   "3.1s",
		Age(-time.Second):                 "0s",
		Age(42900 * time.Millisecond):     "42s",
		Age(119 * time.Second):            "1m",
		Age(5*time.Hour + 59*time.Minute): "5h",
		Age(300 * time.Hour):              "12d",
	} {
		if got != want {
			t.Errorf("printed %q, want %q", got, want)
		}
	}
}

func TestExactRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1<<52).Draw(t, "n")
		if got, err := ParseSize(ExactSize(n)); err != nil || got != n {
			t.Fatalf("size %d printed as %s, read as %d, %v", n, ExactSize(n), got, err)
		}
		if got, err := ParseCount(ExactCount(n)); err != nil || got != n {
			t.Fatalf("count %d printed as %s, read as %d, %v", n, ExactCount(n), got, err)
		}
	})
}
