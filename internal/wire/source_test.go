package wire

import (
	"testing"

	"github.com/cantus-bus/cantus/internal/record"
)

func TestDataSaysWhereItWasRead(t *testing.T) {
	run, err := record.AppendRecord(nil, 3, nil, []byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	for _, history := range []bool{false, true} {
		header := AppendDataHeader
		if history {
			header = AppendHistoryHeader
		}
		frame := append(header(nil, 7, 41, 1, [][]byte{run}), run...)
		d, err := DecodeData(frame[HeaderSize:])
		if err != nil || d.History != history || d.Prev != 41 || d.Count != 1 {
			t.Errorf("history %v: %+v, %v", history, d, err)
		}
	}
	body := append(make([]byte, 8), 1, 0, 0, 0, 2, 0, 0, 0)
	if _, err := DecodeData(append(body, run...)); err == nil {
		t.Error("a source that is not known was taken")
	}
}
