package cluster

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/cantus-bus/cantus/subtree"
)

// Paths of FileHandler. A file's is FilesPath/<SHA-256 in hex>.
const FilesPath = "/files"

// kindState is FileInfo.Kind of a snapshot's state file.
const kindState = "state"

const (
	filesHeaderLimit = 10 * time.Second // a request must be complete by then
	filesIdleLimit   = 10 * time.Second // a connection may be idle for so long
	filesMaxHeader   = 16 << 10
	maxFileList      = 256 << 20 // bytes of a listing: about half a million files
)

// FileInfo is one file that a node has and gives to others.
type FileInfo struct {
	Kind     string `json:"kind"`   // "window", "generation" or "state"
	Name     string `json:"name"`   // within its folder
	Size     int64  `json:"size"`   // in bytes
	SHA256   string `json:"sha256"` // in hex
	FirstSeq uint64 `json:"first_seq,omitempty"`
	LastSeq  uint64 `json:"last_seq,omitempty"`
	Damaged  bool   `json:"damaged,omitempty"` // it failed a check and is not given out
	Row      []byte `json:"row,omitempty"`     // of a file of history: all that subtree.Meta says
}

// ListedSnapshot is a snapshot that a node can be restored from.
type ListedSnapshot struct {
	ID       string   `json:"id"`
	Index    uint64   `json:"index"`
	Term     uint64   `json:"term"`
	Seq      uint64   `json:"seq"`
	State    FileInfo `json:"state"`
	Manifest []byte   `json:"manifest"` // the bytes of its manifest
}

// FileList says which files a node has.
type FileList struct {
	Node      string           `json:"node"`
	Cluster   string           `json:"cluster"`
	First     uint64           `json:"first"` // seqs of history; Last is First-1 if there is none
	Last      uint64           `json:"last"`
	Files     []FileInfo       `json:"files"`     // of history, in the order of the stream
	Snapshots []ListedSnapshot `json:"snapshots"` // newest first
}

// FileList lists what this node has now. Any goroutine.
func (n *Node) FileList() FileList {
	l := FileList{Node: n.NodeID(), Cluster: n.ClusterID(), First: 1, Files: []FileInfo{}, Snapshots: []ListedSnapshot{}}
	if h := n.stream.history; h != nil {
		damaged := h.store.Damaged()
		for _, m := range h.store.Files() {
			l.Files = append(l.Files, fileInfo(&m, isDamaged(damaged, &m)))
		}
		l.First, l.Last = h.store.Bounds()
	}
	if n.snaps == nil {
		return l
	}
	for _, k := range n.snaps.usable() {
		l.Snapshots = append(l.Snapshots, ListedSnapshot{
			ID: k.m.id(), Index: k.m.index, Term: k.m.term, Seq: k.m.seq, Manifest: k.blob,
			State: FileInfo{Kind: kindState, Name: k.m.id() + stateSuffix, Size: k.m.stateSize, SHA256: hex.EncodeToString(k.m.stateSum[:])},
		})
	}
	return l
}

func fileInfo(m *subtree.Meta, damaged bool) FileInfo {
	row, err := m.MarshalBinary()
	if err != nil {
		damaged = true // it says nothing that others could use
	}
	return FileInfo{
		Kind: m.Kind.String(), Name: m.Name(), Size: m.Size, SHA256: hex.EncodeToString(m.SHA256[:]),
		FirstSeq: m.FirstSeq, LastSeq: m.LastSeq, Damaged: damaged, Row: row,
	}
}

func isDamaged(list []*subtree.CorruptError, m *subtree.Meta) bool {
	for _, e := range list {
		if e.File == m.Name() {
			return true
		}
	}
	return false
}

// metas are the files of history that the list names and its node can give, in the order of the stream.
func (l *FileList) metas() (list []subtree.Meta, err error) {
	for i := range l.Files {
		if l.Files[i].Damaged || l.Files[i].Kind == kindState {
			continue
		}
		var m subtree.Meta
		if err := m.UnmarshalBinary(l.Files[i].Row); err != nil {
			return nil, fmt.Errorf("file list of node %s: %s: %w", l.Node, l.Files[i].Name, err)
		}
		list = append(list, m)
	}
	return list, nil
}

// FileHandler serves this node's files by HTTP:
//
//	GET /files            FileList as JSON
//	GET /files/{sha256}   a file of history or a state file, as it is; ranges are served, ETag is the hash
//
// Close waits for the requests that it serves.
func (n *Node) FileHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+FilesPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(n.FileList()) // an error is the client's, who has gone
	})
	mux.HandleFunc("GET "+FilesPath+"/{sha256}", n.serveFile)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !n.serving.enter() {
			http.Error(w, "the node is closing", http.StatusServiceUnavailable)
			return
		}
		defer n.serving.done()
		mux.ServeHTTP(w, r)
	})
}

func (n *Node) serveFile(w http.ResponseWriter, r *http.Request) {
	sum, err := parseSum(r.PathValue("sha256"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f, err := n.openSum(sum)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		http.Error(w, "no such file here", http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusGone) // damaged here
		return
	}
	defer f.Close()
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:])+`"`)
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(&countedResponse{w, n.metrics}, r, "", time.Time{}, f)
}

// countedResponse counts what is sent.
type countedResponse struct {
	http.ResponseWriter
	metrics *metrics
}

func (c *countedResponse) Write(b []byte) (int, error) {
	k, err := c.ResponseWriter.Write(b)
	c.metrics.fileBytesSent.Add(float64(k))
	return k, err
}

// openSum finds a file by its hash.
func (n *Node) openSum(sum [32]byte) (io.ReadSeekCloser, error) {
	if h := n.stream.history; h != nil {
		f, err := h.store.OpenSum(sum)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if n.snaps == nil {
		return nil, fs.ErrNotExist
	}
	f, err := n.snaps.openState(sum)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func parseSum(s string) (sum [32]byte, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(sum) || s != strings.ToLower(s) {
		return sum, fmt.Errorf("%.80q is not a SHA-256 in hex", s)
	}
	return [32]byte(b), nil
}

// serveFiles answers other nodes on raft's port until ctx ends or the network is cut.
func (n *Node) serveFiles(ctx context.Context) {
	srv := &http.Server{
		Handler: n.FileHandler(), ReadHeaderTimeout: filesHeaderLimit, IdleTimeout: filesIdleLimit, MaxHeaderBytes: filesMaxHeader,
		ErrorLog: n.log.Named("files").StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	_ = srv.Serve(n.layer.Files()) // it ends with the layer
	_ = srv.Close()
}
