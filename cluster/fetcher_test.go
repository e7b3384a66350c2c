package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// servePeer runs a node's port for files with a handler of the test's.
func servePeer(t *testing.T, id string, h http.HandlerFunc) filePeer {
	t.Helper()
	l := newTestLayer(t, "x")
	srv := &http.Server{Handler: h}
	go func() { _ = srv.Serve(l.Files()) }()
	t.Cleanup(func() { _ = srv.Close() })
	return filePeer{id, l.advertise}
}

// memFile is an incomingFile in memory. failAfter: writes beyond so many bytes fail as on a full disk; 0: none does.
type memFile struct {
	buf       *bytes.Buffer
	sum       [32]byte
	failAfter int
}

func (m *memFile) Have() int64  { return int64(m.buf.Len()) }
func (m *memFile) Close() error { return nil }

func (m *memFile) Write(b []byte) (int, error) {
	if m.failAfter > 0 && m.buf.Len()+len(b) > m.failAfter {
		return 0, syscall.ENOSPC
	}
	return m.buf.Write(b)
}

func (m *memFile) Commit() error {
	if sha256.Sum256(m.buf.Bytes()) != m.sum {
		m.buf.Reset()
		return fmt.Errorf("%w: wrong hash", errSnapshotFormat)
	}
	return nil
}

// peerFaults are the ways in which a node does not deliver content.
func peerFaults(content []byte) map[string]http.HandlerFunc {
	half := content[:len(content)/2]
	wrong := bytes.Clone(content)
	wrong[len(wrong)-1] ^= 1
	say := func(w http.ResponseWriter, length int, b []byte) {
		w.Header().Set("Content-Length", fmt.Sprint(length))
		_, _ = w.Write(b)
	}
	serve := func(b []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
		}
	}
	return map[string]http.HandlerFunc{
		"does not have it":        func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusNotFound) },
		"has it damaged":          func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusGone) },
		"fails":                   func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusInternalServerError) },
		"drops the connection":    func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"sends a wrong byte":      serve(wrong),
		"has a shorter file":      serve(half),
		"has a longer file":       serve(append(bytes.Clone(content), 0)),
		"says less than it sends": func(w http.ResponseWriter, _ *http.Request) { say(w, len(half), half) },
		"ignores ranges":          func(w http.ResponseWriter, _ *http.Request) { say(w, len(content), content) },
		"says no length": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(half)
			w.(http.Flusher).Flush()
			_, _ = w.Write(content[len(half):])
		},
		"dies in the middle": func(w http.ResponseWriter, r *http.Request) {
			say(w, len(content)-offsetOf(r), content[offsetOf(r):][:10])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
		"stalls": func(w http.ResponseWriter, r *http.Request) {
			say(w, len(content)-offsetOf(r), content[offsetOf(r):][:10])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	}
}

// offsetOf is where a request wants to begin.
func offsetOf(r *http.Request) (from int) {
	_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
	return from
}

func testFetcher(t *testing.T) *fetcher {
	t.Helper()
	n := &Node{metrics: newMetrics(nil), log: hclog.NewNullLogger(), files: newFileClient(newTestLayer(t, "x"))}
	n.files.stall = 300 * time.Millisecond
	return &fetcher{n: n}
}

// TestFetchFromNodesThatDoNotDeliver: whatever nodes do that are asked first, the file comes from the next, whole; what came of it before
// is not fetched again.
func TestFetchFromNodesThatDoNotDeliver(t *testing.T) {
	content := make([]byte, 300<<10)
	for i := range content {
		content[i] = byte(rand.Uint32())
	}
	sum := sha256.Sum256(content)
	good := servePeer(t, "good", func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, hex.EncodeToString(sum[:])) {
			t.Errorf("asked for %s", r.URL.Path)
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	})
	for what, fault := range peerFaults(content) {
		t.Run(what, func(t *testing.T) {
			bad := servePeer(t, "bad", fault)
			for _, have := range []int{0, 100, len(content) - 20} {
				f, file := testFetcher(t), &memFile{buf: bytes.NewBuffer(bytes.Clone(content[:have])), sum: sum}
				var told atomic.Int64
				f.report = func(p fetchProgress) { told.Store(p.bytesDone) }
				open := func() (incomingFile, error) { return file, nil }
				err := f.from(t.Context(), []filePeer{bad, bad, good}, sum, int64(len(content)), open)
				if err != nil || !bytes.Equal(file.buf.Bytes(), content) {
					t.Errorf("from %d on: %v, %d of %d bytes are here", have, err, file.buf.Len(), len(content))
				}
				if f.p.bytesDone != int64(len(content)) {
					t.Errorf("from %d on: %d bytes counted", have, f.p.bytesDone)
				}
			}
		})
	}
}

// TestFetchSaysWhatIsWrong: that no node has the file any more, that a node is to blame, or this node's own disk.
func TestFetchSaysWhatIsWrong(t *testing.T) {
	content := bytes.Repeat([]byte("x"), 300<<10)
	sum := sha256.Sum256(content)
	faults := peerFaults(content)
	hasNot, fails := servePeer(t, "a", faults["does not have it"]), servePeer(t, "b", faults["fails"])
	good := servePeer(t, "good", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	})
	fetch := func(failAfter int, peers ...filePeer) error {
		f, file := testFetcher(t), &memFile{buf: new(bytes.Buffer), sum: sum, failAfter: failAfter}
		return f.from(t.Context(), peers, sum, int64(len(content)), func() (incomingFile, error) { return file, nil })
	}
	if err := fetch(0, hasNot, hasNot); !errors.Is(err, errNobodyHas) {
		t.Errorf("nobody has it: %v", err)
	}
	if err := fetch(0, hasNot, fails); err == nil || errors.Is(err, errNobodyHas) {
		t.Errorf("one may have it: %v", err)
	}
	if err := fetch(0); err == nil {
		t.Error("nobody is there")
	}
	if err := fetch(100<<10, good, good); !errors.Is(err, errLocal) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the disk is full: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := testFetcher(t).from(ctx, []filePeer{good}, sum, 1, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("told to stop: %v", err)
	}
}
