package cluster

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/cantus-bus/cantus/internal/stall"
	"github.com/cantus-bus/cantus/subtree"
)

// fetchStall is how long a peer may send no byte of a file before another is asked.
const fetchStall = 15 * time.Second

var (
	// errPeerHasNot: the peer does not have the file, or not whole.
	errPeerHasNot = errors.New("the node does not have the file")
	// errPeerLies: the peer answers what no healthy node answers.
	errPeerLies = errors.New("the node sends what it should not")
	errStalled  = errors.New("the node sends nothing")
	// errLocal marks errors of this node's own disk, for which no peer is to blame.
	errLocal = errors.New("cannot store what was fetched")
)

// incomingFile is a file on its way here; what came before a restart counts. subtree.Incoming and incomingState are such.
type incomingFile interface {
	io.Writer
	Have() int64
	// Commit checks and keeps the file. If the check fails all of it is thrown away.
	Commit() error
	Close() error
}

// filePeer is a node to fetch from.
type filePeer struct{ id, addr string }

// wantedPeer is the key of a request's context for the filePeer that it is for: what a URL says of a node does not get to the dialling.
type wantedPeer struct{}

// fileClient fetches files from other nodes over raft's port. It keeps no connections between requests.
type fileClient struct {
	http  http.Client
	stall time.Duration
}

func newFileClient(layer *streamLayer) *fileClient {
	return &fileClient{stall: fetchStall, http: http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			p, _ := ctx.Value(wantedPeer{}).(filePeer)
			return layer.DialFiles(nodeAddr(p.id, p.addr), greetLimit)
		},
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: filesMaxHeader,
	}}}
}

// list asks a node for its files.
func (c *fileClient) list(ctx context.Context, p filePeer) (l FileList, err error) {
	body, _, err := c.get(ctx, p, FilesPath, 0)
	if err != nil {
		return l, fmt.Errorf("ask node %s for its files: %w", p.id, err)
	}
	defer body.Close()
	if err := json.NewDecoder(io.LimitReader(body, maxFileList)).Decode(&l); err != nil {
		return l, fmt.Errorf("ask node %s for its files: %w: %w", p.id, errPeerLies, err)
	}
	if l.Node != p.id {
		return l, fmt.Errorf("ask node %s for its files: %w: it answers as %q", p.id, errPeerLies, l.Node)
	}
	return l, nil
}

// fetch completes a file from one node. When it fails, what came is kept, unless the check of the whole did; progress is told how
// many bytes more came.
func (c *fileClient) fetch(ctx context.Context, p filePeer, sum [32]byte, size int64, to incomingFile, progress func(int)) error {
	if to.Have() < size {
		if err := c.copy(ctx, p, sum, size, to, progress); err != nil {
			return fmt.Errorf("fetch %x from node %s: %w", sum[:4], p.id, err)
		}
	}
	if err := to.Commit(); err != nil {
		return fmt.Errorf("fetch %x from node %s: %w", sum[:4], p.id, whose(err))
	}
	return nil
}

// whose tells wrong bytes, which are the sender's fault, from a disk that does not take them.
func whose(err error) error {
	if errors.Is(err, subtree.ErrCorrupt) || errors.Is(err, errSnapshotFormat) {
		return fmt.Errorf("%w: %w", errPeerLies, err)
	}
	return fmt.Errorf("%w: %w", errLocal, err)
}

func (c *fileClient) copy(ctx context.Context, p filePeer, sum [32]byte, size int64, to incomingFile, progress func(int)) error {
	from := to.Have()
	body, length, err := c.get(ctx, p, FilesPath+"/"+hex.EncodeToString(sum[:]), from)
	if err != nil {
		return err
	}
	defer body.Close()
	if length != size-from {
		return fmt.Errorf("%w: %d bytes from byte %d on of a file of %d", errPeerLies, length, from, size)
	}
	b := make([]byte, 128<<10)
	for from < size {
		k, err := body.Read(b[:min(int64(len(b)), size-from)])
		from += int64(k)
		progress(k)
		if k > 0 {
			if _, err := to.Write(b[:k]); err != nil {
				return whose(err)
			}
		}
		if err != nil && from < size {
			return fmt.Errorf("%d bytes are missing: %w", size-from, err)
		}
	}
	return nil
}

// get asks for a path, from a byte on. The body fails when nothing comes for c.stall.
func (c *fileClient) get(ctx context.Context, p filePeer, path string, from int64) (body io.ReadCloser, length int64, err error) {
	ctx, watch := stall.New(ctx, c.stall, errStalled)
	defer func() {
		if err != nil {
			err = watch.End(err)
		}
	}()
	req, err := http.NewRequestWithContext(context.WithValue(ctx, wantedPeer{}, p), http.MethodGet, "http://"+p.addr+path, nil)
	if err != nil {
		return nil, 0, err
	}
	want := http.StatusOK
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
		want = http.StatusPartialContent
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, 0, err
	}
	if err := checkAnswer(resp, want, from); err != nil {
		return nil, 0, errors.Join(err, resp.Body.Close())
	}
	return watch.Body(resp.Body), resp.ContentLength, nil
}

func checkAnswer(resp *http.Response, want int, from int64) error {
	switch {
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone:
		return errPeerHasNot
	case resp.StatusCode != want:
		return fmt.Errorf("%w: status %s", errPeerLies, resp.Status)
	case from > 0 && !strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", from)):
		return fmt.Errorf("%w: range %q, wanted from byte %d", errPeerLies, resp.Header.Get("Content-Range"), from)
	}
	return nil
}

// PeerFiles asks another node, or this one, for its files.
func (n *Node) PeerFiles(ctx context.Context, id string) (FileList, error) {
	if id == n.NodeID() {
		return n.FileList(), nil
	}
	p, err := n.filePeer(id)
	if err != nil {
		return FileList{}, err
	}
	return n.files.list(ctx, p)
}

func (n *Node) filePeer(id string) (filePeer, error) {
	addr, ok := n.raftAddrOf(id)
	if !ok {
		return filePeer{}, fmt.Errorf("cluster: gossip does not know node %s", id)
	}
	return filePeer{id, addr}, nil
}

// filePeers are the other nodes of the cluster that gossip sees alive, the leader last.
func (n *Node) filePeers() (list []filePeer) {
	_, leader := n.raft.LeaderWithID()
	var last []filePeer
	for _, m := range n.gossip.alive() {
		if m.meta.Raft == "" || m.meta.Cluster != n.ClusterID() {
			continue
		}
		p := filePeer{m.id, m.meta.Raft}
		if m.id == string(leader) {
			last = append(last, p)
			continue
		}
		list = append(list, p)
	}
	return append(list, last...)
}
