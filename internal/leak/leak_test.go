package leak

import (
	"strings"
	"testing"
	"time"
)

func TestFind(t *testing.T) {
	if err := find(0); err != nil {
		t.Errorf("nothing was left: %v", err)
	}
	stop := make(chan struct{})
	go lingering(stop)
	if err := find(0); err == nil || !strings.Contains(err.Error(), "lingering") {
		t.Errorf("a goroutine is left: %v", err)
	}
	time.AfterFunc(700*time.Millisecond, func() { close(stop) }) // later than one look takes
	if err := find(patience); err != nil {
		t.Errorf("it ended meanwhile: %v", err)
	}
}

func lingering(stop chan struct{}) { <-stop }
