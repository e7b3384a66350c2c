package wire

import "testing"

func TestBufferClasses(t *testing.T) {
	for _, tt := range []struct{ n, want int }{
		{0, 1 << 10}, {1, 1 << 10}, {1 << 10, 1 << 10}, {1<<10 + 1, 4 << 10}, {4<<10 + 1, 16 << 10}, {16<<10 + 1, 64 << 10},
		{64<<10 + 1, 256 << 10}, {256<<10 + 1, MaxFrame}, {MaxFrame, MaxFrame}, {MaxFrame + 1, MaxFrame + 1},
	} {
		b := GetBuffer(tt.n)
		if len(b.B) != tt.n || cap(b.B) < tt.want {
			t.Fatalf("%d bytes: len %d cap %d, want cap %d", tt.n, len(b.B), cap(b.B), tt.want)
		}
		b.Free()
	}
	var none *Buffer
	none.Free()
}

// TestDoubleFree needs the tag "invariants"; without it a second Free is not looked for.
func TestDoubleFree(t *testing.T) {
	if !invariants {
		t.Skip("only with -tags invariants")
	}
	b := GetBuffer(10)
	b.B[0] = 1
	bytes := b.B
	b.Free()
	if bytes[0] != 0xDB {
		t.Fatal("freed bytes were not overwritten")
	}
	defer func() {
		if recover() == nil {
			t.Fatal("a second Free was not caught")
		}
	}()
	b.Free()
}
