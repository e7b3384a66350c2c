package configs_test

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cantus-bus/cantus/internal/config"
)

var write = flag.Bool("write", false, "write cantus.schema.json anew instead of comparing it")

func files(t *testing.T) []string {
	var list []string
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".yaml") {
			list = append(list, path)
		}
		return err
	})
	if err != nil || len(list) < 5 {
		t.Fatalf("found %d files, %v", len(list), err)
	}
	return list
}

func TestEveryFileLoads(t *testing.T) {
	for _, path := range files(t) {
		if _, err := config.LoadFile(path, nil, nil); err != nil {
			t.Errorf("%v", err)
		}
	}
}

// TestThreeNodesBelongTogether: what must be equal is, what must differ does, and every node is in the join list.
func TestThreeNodesBelongTogether(t *testing.T) {
	seen := map[string]string{}
	var first *config.Config
	for _, name := range []string{"a", "b", "c"} {
		l, err := config.LoadFile(filepath.Join("three-nodes", name+".yaml"), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := l.Config
		if first == nil {
			first = &c
		}
		join := strings.Join(c.Cluster.Join, " ")
		if c.Cluster.Name != first.Cluster.Name || c.Cluster.BootstrapExpect != 3 || join != strings.Join(first.Cluster.Join, " ") {
			t.Errorf("%s: section cluster differs: %+v", name, c.Cluster)
		}
		if !strings.Contains(join, c.Listen.Gossip) {
			t.Errorf("%s: %s is not in join", name, c.Listen.Gossip)
		}
		for _, own := range []string{c.Node.Name, c.Node.Data, c.Listen.Client, c.Listen.HTTP, c.Listen.Raft, c.Listen.Gossip} {
			if other, taken := seen[own]; taken {
				t.Errorf("%s and %s share %s", name, other, own)
			}
			seen[own] = name
		}
	}
}

func TestSchemaIsCurrent(t *testing.T) {
	const path = "cantus.schema.json"
	want, err := config.Schema()
	if err != nil {
		t.Fatal(err)
	}
	if *write {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s does not match the configuration: run \"go test ./configs -run Schema -write\"", path)
	}
}
