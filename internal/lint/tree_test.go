package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/cantus-bus/cantus"

// source is one Go file.
type source struct {
	path   string // from the root, with slashes
	pkg    string // its folder, from the root
	test   bool
	text   []byte
	parsed *ast.File
}

// tree is everything in the working copy that is ours.
type tree struct {
	root    string
	fset    *token.FileSet
	sources []source
	other   []string // paths of all files that are not Go
}

// where prints the place of a node for a message.
func (t *tree) where(p token.Pos) string {
	pos := t.fset.Position(p)
	return pos.Filename + ":" + itoa(pos.Line)
}

// load reads the working copy once for all tests of this package.
var load = sync.OnceValues(func() (*tree, error) {
	t := &tree{root: filepath.Join("..", ".."), fset: token.NewFileSet()}
	err := filepath.WalkDir(t.root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(t.root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if skipped(rel) {
				return filepath.SkipDir
			}
			return nil
		}
		return t.add(rel)
	})
	return t, err
})

// skipped are folders that are not part of the project, or hold no code and no text of ours.
func skipped(rel string) bool {
	return rel == ".git" || path.Base(rel) == "testdata" || rel == "data" || rel == "cantus-data"
}

func (t *tree) add(rel string) error {
	if !strings.HasSuffix(rel, ".go") {
		t.other = append(t.other, rel)
		return nil
	}
	text, err := os.ReadFile(filepath.Join(t.root, rel))
	if err != nil {
		return err
	}
	parsed, err := parser.ParseFile(t.fset, rel, text, parser.ParseComments)
	if err != nil {
		return err
	}
	t.sources = append(t.sources, source{rel, path.Dir(rel), strings.HasSuffix(rel, "_test.go"), text, parsed})
	return nil
}

func mustLoad(t *testing.T) *tree {
	t.Helper()
	tree, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.sources) < 10 {
		t.Fatalf("found only %d Go files below %s", len(tree.sources), tree.root)
	}
	return tree
}

func (t *tree) read(rel string) (string, error) {
	b, err := os.ReadFile(filepath.Join(t.root, rel))
	return string(b), err
}
