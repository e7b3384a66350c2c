package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/uuid"
)

const (
	identityFile   = "identity.json"
	identityFormat = 1    // newest format of the data folder that this code reads and the one it writes
	maxRemoved     = 4096 // removed ids that are remembered; the oldest are forgotten first
)

// identity is what a data folder says of its owner. It is written with fsync and rename, so a crash leaves the old or
// the new file whole.
type identity struct {
	Format    int      `json:"format"`               // of the whole data folder
	NodeID    string   `json:"node_id"`              // random UUID; raft server id and gossip name
	ClusterID string   `json:"cluster_id,omitempty"` // empty until the node belongs to a cluster; then never changes
	HasLog    bool     `json:"has_log,omitempty"`    // the raft log has entries; one that is empty later was lost
	Overtaken string   `json:"overtaken,omitempty"`  // the snapshot of another node that may be newer than the raft log
	Removed   []string `json:"removed,omitempty"`    // ids that an operator removed: they are never added again
	CRC       string   `json:"crc32c,omitempty"`     // of the rest as JSON without spaces, 8 hex digits; "": it was not noted. Only in the file
}

// sum is what CRC must be.
func (id identity) sum() (string, error) {
	id.CRC = ""
	b, err := json.Marshal(id)
	return fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli)), err
}

// loadIdentity reads the folder's identity, or makes one if the folder has none.
func loadIdentity(dir string) (identity, error) {
	path := filepath.Join(dir, identityFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		id := identity{Format: identityFormat, NodeID: uuid.NewString()}
		return id, id.save(dir)
	}
	if err != nil {
		return identity{}, fmt.Errorf("read identity: %w", err)
	}
	return parseIdentity(path, b)
}

// parseIdentity checks the bytes of an identity file. The format comes first: a newer one may look quite different.
func parseIdentity(path string, b []byte) (identity, error) {
	var id identity
	if err := json.Unmarshal(b, &id); err != nil {
		return identity{}, fmt.Errorf("identity file %s is damaged: %w; restore it, or empty the folder to join as a new node", path, err)
	}
	switch {
	case id.Format > identityFormat:
		return identity{}, fmt.Errorf("data folder %s has format %d, this version knows up to %d: start it with a newer version",
			filepath.Dir(path), id.Format, identityFormat)
	case id.Format < 1:
		return identity{}, fmt.Errorf("identity file %s has no format: it is not a data folder of this program; restore it, or empty the folder to join as a new node", path)
	}
	if _, err := uuid.Parse(id.NodeID); err != nil {
		return identity{}, fmt.Errorf("identity file %s: node id %q is no UUID: %w; restore it, or empty the folder to join as a new node", path, id.NodeID, err)
	}
	if sum, err := id.sum(); err != nil || id.CRC != "" && id.CRC != sum {
		return identity{}, fmt.Errorf("identity file %s is damaged: its checksum is %s, not %s; restore it, or empty the folder to join as a new node", path, sum, id.CRC)
	}
	id.CRC = ""
	return id, nil
}

func (id identity) save(dir string) error {
	var err error
	if id.CRC, err = id.sum(); err != nil {
		return fmt.Errorf("encode identity: %w", err)
	}
	b, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return fmt.Errorf("encode identity: %w", err)
	}
	if err := writeFileSync(filepath.Join(dir, identityFile), append(b, '\n')); err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	return nil
}

// withRemoved adds an id to the removed; false if it was there.
func (id identity) withRemoved(other string) (identity, bool) {
	if other == "" || slices.Contains(id.Removed, other) {
		return id, false
	}
	id.Removed = append(slices.Clone(id.Removed), other)
	if n := len(id.Removed); n > maxRemoved {
		id.Removed = id.Removed[n-maxRemoved:]
	}
	return id, true
}

// writeFileSync replaces a file so that after a crash it holds the old or the new bytes:
// write beside it, fsync, rename, fsync the folder.
func writeFileSync(path string, b []byte) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}
