package wire

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDesignTables holds the specification's tables of types and codes against the code.
func TestDesignTables(t *testing.T) {
	page, err := os.ReadFile("DESIGN.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	types, codes := 0, 0
	section := ""
	for line := range strings.SplitSeq(string(page), "\n") {
		if strings.HasPrefix(line, "## ") {
			section = line[3:]
		}
		cells := strings.Split(line, "|")
		var n int
		if len(cells) < 4 {
			continue
		}
		if _, err := fmt.Sscan(cells[1], &n); err != nil {
			continue
		}
		name := strings.TrimSpace(cells[2])
		switch section {
		case "Types":
			types++
			rows[fmt.Sprintf("type %d %s", n, name)] = true
		case "Codes":
			codes++
			rows[fmt.Sprintf("code %d %s", n, name)] = true
		}
	}
	for ty := THello; ty <= TAnswer; ty++ {
		if want := fmt.Sprintf("type %d %s", ty, ty); !rows[want] {
			t.Errorf("no row %q", want)
		}
	}
	named := 0
	for c := range Code(200) {
		if strings.HasPrefix(c.String(), "code_") {
			continue
		}
		named++
		if want := fmt.Sprintf("code %d %s", uint16(c), c); !rows[want] {
			t.Errorf("no row %q", want)
		}
	}
	if types != int(TAnswer) || codes != named {
		t.Errorf("%d rows of types, want %d; %d rows of codes, want %d", types, TAnswer, codes, named)
	}
}
