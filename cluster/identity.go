package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	"github.com/cantus-bus/cantus/internal/vfs"
)

const (
	identityFile   = "identity.json"
	identityFormat = 1    // newest format of the data folder that this code reads and the one it writes
	maxRemoved     = 4096 // removed ids that are remembered; the oldest are forgotten first
)

// identity is what a data folder says of its owner. It is written with vfs.Replace, so a crash leaves the old or the new file whole. There is
// no secret in it: it has the mode of all files of vfs, and who may come near it the folder decides.
type identity struct {
	Format    int      `json:"format"`               // of the whole data folder
	NodeID    string   `json:"node_id"`              // random UUID; raft server id and gossip name
	ClusterID string   `json:"cluster_id,omitempty"` // empty until the node belongs to a cluster; then never changes
	HasLog    bool     `json:"has_log,omitempty"`    // the raft log has entries; one that is empty later was lost
	Overtaken string   `json:"overtaken,omitempty"`  // the snapshot of another node that may be newer than the raft log
	Removed   []string `json:"removed,omitempty"`    // ids that an operator removed: they are never added again

	Votes bool              `json:"votes,omitempty"` // raft's configuration had this node as a voter when it was last looked at
	Peers map[string]string `json:"peers,omitempty"` // and the other voters then: gossip addresses by id, "" where not known
	Aside *aside            `json:"aside,omitempty"` // not nil: the id is new, since the state of the one before was damaged

	CRC string `json:"crc32c,omitempty"` // of the rest as JSON without spaces, 8 hex digits; "": it was not noted. Only in the file
}

// sum is what CRC must be.
func (id identity) sum() (string, error) {
	id.CRC = ""
	b, err := json.Marshal(id)
	return fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli)), err
}

// loadIdentity reads the folder's identity, or makes one if the folder has none and holds nothing else.
func loadIdentity(fsys vfs.FS, dir string) (identity, error) {
	path := filepath.Join(dir, identityFile)
	b, err := readFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		if other := stateIn(dir); other != "" {
			return identity{}, damaged(partIdentity, fmt.Errorf("identity file %s is missing, but there is %s: %s", path, other, howToMendIdentity))
		}
		id := identity{Format: identityFormat, NodeID: uuid.NewString()}
		return id, id.save(fsys, dir)
	}
	if err != nil {
		return identity{}, fmt.Errorf("read identity: %w", err)
	}
	return parseIdentity(path, b)
}

// stateIn names something in a data folder that was written after its identity; "" if there is nothing.
func stateIn(dir string) string {
	for _, pattern := range []string{
		filepath.Join(raftDir, logFile), filepath.Join(raftDir, stableFile),
		filepath.Join(snapshotDir, "*"+manifestSuffix), filepath.Join(historyDir, "MANIFEST"), asidePrefix + "*",
	} {
		if names, err := filepath.Glob(filepath.Join(dir, pattern)); err == nil && len(names) > 0 {
			return names[0]
		}
	}
	return ""
}

const howToMendIdentity = "restore it, or empty the folder to join as a new node"

// parseIdentity checks the bytes of an identity file. The format comes first: a newer one may look quite different.
func parseIdentity(path string, b []byte) (identity, error) {
	spoiled := func(format string, args ...any) (identity, error) {
		return identity{}, damaged(partIdentity, fmt.Errorf("identity file %s %w; %s", path, fmt.Errorf(format, args...), howToMendIdentity))
	}
	var id identity
	if err := json.Unmarshal(b, &id); err != nil {
		return spoiled("is damaged: %w", err)
	}
	switch {
	case id.Format > identityFormat && !id.misreadFormat():
		return identity{}, fmt.Errorf("data folder %s has format %d, this version knows up to %d: %w", filepath.Dir(path), id.Format, identityFormat, errNewerVersion)
	case id.Format > identityFormat:
		return spoiled("is damaged: its format is not %d", id.Format)
	case id.Format < 1:
		return spoiled("has no format: it is not a data folder of this program")
	}
	if _, err := uuid.Parse(id.NodeID); err != nil {
		return spoiled("names the node %q, which is no UUID: %w", id.NodeID, err)
	}
	if sum, err := id.sum(); err != nil || id.CRC != "" && id.CRC != sum {
		return spoiled("is damaged: its checksum is %s, not %s", sum, id.CRC)
	}
	id.CRC = ""
	return id, nil
}

// misreadFormat tells whether all is of this program's format but the number that says so.
func (id identity) misreadFormat() bool {
	noted := id.CRC
	id.Format = identityFormat
	sum, err := id.sum()
	return err == nil && noted == sum
}

func (id identity) save(fsys vfs.FS, dir string) error {
	b, err := id.encode()
	if err != nil {
		return err
	}
	if err := vfs.Replace(fsys, filepath.Join(dir, identityFile), b); err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	return nil
}

// encode is the bytes of an identity file.
func (id identity) encode() ([]byte, error) {
	var err error
	if id.CRC, err = id.sum(); err != nil {
		return nil, fmt.Errorf("encode identity: %w", err)
	}
	b, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode identity: %w", err)
	}
	return append(b, '\n'), nil
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
