package cluster

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

func newTestLayer(t *testing.T, clusterID string) *streamLayer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newStreamLayer(l, l.Addr().String(), func() string { return clusterID }, func(id, _ string) error {
		if id != clusterID {
			return errForeignPeer
		}
		return nil
	})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		s.wait()
	})
	return s
}

// accepted takes one connection of a kind and says what comes over it.
func accepted(t *testing.T, accept func() (net.Conn, error)) <-chan string {
	t.Helper()
	got := make(chan string, 1)
	go func() {
		c, err := accept()
		if err != nil {
			got <- err.Error()
			return
		}
		defer c.Close()
		b, _ := io.ReadAll(c)
		got <- string(b)
	}()
	return got
}

// TestConnectionsAreSortedByTheirGreeting: also while others have connected and say nothing.
func TestConnectionsAreSortedByTheirGreeting(t *testing.T) {
	s := newTestLayer(t, "x")
	for range 50 {
		silent, err := net.Dial("tcp", s.advertise)
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
	}
	rafts, files := accepted(t, s.Accept), accepted(t, s.Files().Accept)
	for _, dial := range []struct {
		say string
		by  func() (net.Conn, error)
	}{
		{"files", func() (net.Conn, error) { return s.DialFiles(s.advertise, time.Minute) }},
		{"raft", func() (net.Conn, error) { return s.Dial(raft.ServerAddress(s.advertise), time.Minute) }},
	} {
		c, err := dial.by()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte(dial.say)); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	if r, f := <-rafts, <-files; r != "raft" || f != "files" {
		t.Fatalf("raft got %q, files got %q", r, f)
	}
}

// TestConnectionsForFilesAreBounded: one more is closed, and when one ends there is room again. Raft's are not kept out.
func TestConnectionsForFilesAreBounded(t *testing.T) {
	s := newTestLayer(t, "x")
	var held []net.Conn
	for range maxFileConns {
		got := make(chan net.Conn, 1)
		go func() {
			c, err := s.Files().Accept()
			if err != nil {
				t.Error(err)
			}
			got <- c
		}()
		c, err := s.DialFiles(s.advertise, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		held = append(held, <-got)
	}
	c, err := s.DialFiles(s.advertise, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.ReadAll(c); err != nil && !errors.Is(err, io.EOF) {
		t.Logf("closed by %v", err)
	}
	rafts, files := accepted(t, s.Accept), accepted(t, s.Files().Accept)
	r, err := s.Dial(raft.ServerAddress(s.advertise), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	<-rafts
	held[0].Close()
	again, err := s.DialFiles(s.advertise, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	if got := <-files; got != "" {
		t.Fatal(got)
	}
}

// TestNodeWithoutAClusterHasNoFiles: only a leader's raft makes it one of a cluster.
func TestNodeWithoutAClusterHasNoFiles(t *testing.T) {
	s := newTestLayer(t, "")
	c, err := s.DialFiles(s.advertise, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if b, _ := io.ReadAll(c); len(b) != 0 {
		t.Fatalf("it says %q", b)
	}
}
