package lint

import (
	"bytes"
	"go/ast"
	"go/format"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	maxFunctionLines = 70
	maxFileLines     = 600
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestFormatted(t *testing.T) {
	for _, s := range mustLoad(t).sources {
		want, err := format.Source(s.text)
		if err != nil || !bytes.Equal(want, s.text) {
			t.Errorf("%s: not formatted: run gofmt -w on it", s.path)
		}
	}
}

func TestFileLength(t *testing.T) {
	for _, s := range mustLoad(t).sources {
		if n := bytes.Count(s.text, []byte{'\n'}); n > maxFileLines {
			t.Errorf("%s: %d lines, the limit is %d: give each thought in it a file of its own", s.path, n, maxFileLines)
		}
	}
}

func TestFunctionLength(t *testing.T) {
	tree := mustLoad(t)
	for _, s := range tree.sources {
		ast.Inspect(s.parsed, func(n ast.Node) bool {
			name := "function literal"
			switch f := n.(type) {
			case *ast.FuncDecl:
				name = f.Name.Name
			case *ast.FuncLit:
			default:
				return true
			}
			lines := tree.fset.Position(n.End()).Line - tree.fset.Position(n.Pos()).Line + 1
			if lines > maxFunctionLines {
				t.Errorf("%s: %s has %d lines, the limit is %d: name its steps and make them functions", tree.where(n.Pos()), name, lines, maxFunctionLines)
			}
			return true
		})
	}
}

func TestPackageComments(t *testing.T) {
	comments := map[string]string{}
	names := map[string]string{}
	for _, s := range mustLoad(t).sources {
		if s.test {
			continue
		}
		names[s.pkg] = s.parsed.Name.Name
		if s.parsed.Doc == nil {
			continue
		}
		if comments[s.pkg] != "" {
			t.Errorf("%s: a second package comment: keep one file's, or leave an empty line below this one", s.path)
		}
		comments[s.pkg] = s.parsed.Doc.Text()
	}
	for pkg, name := range names {
		start := "Package " + name + " "
		if name == "main" {
			start = "Command "
		}
		if !strings.HasPrefix(comments[pkg], start) {
			t.Errorf("%s: no package comment that begins with %q: say what the package is, what it promises and what it does not do", pkg, start)
		}
	}
}

func TestExportedAreDocumented(t *testing.T) {
	tree := mustLoad(t)
	for _, s := range tree.sources {
		if s.test || s.parsed.Name.Name == "main" {
			continue
		}
		for _, d := range s.parsed.Decls {
			for _, id := range undocumented(d) {
				t.Errorf("%s: exported %s has no comment: say what it is, with units, ranges, errors and who owns what", tree.where(id.Pos()), id.Name)
			}
		}
	}
}

// undocumented lists the exported names that a declaration leaves without a comment. In a group of constants or variables
// a comment on the group or on any of its lines counts for all: names that speak for themselves need no echo.
func undocumented(d ast.Decl) (list []*ast.Ident) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && exportedReceiver(d) && !obvious(d) {
			return []*ast.Ident{d.Name}
		}
	case *ast.GenDecl:
		if groupDocumented(d) {
			return nil
		}
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() && spec.Doc == nil && spec.Comment == nil {
					list = append(list, spec.Name)
				}
			case *ast.ValueSpec:
				if spec.Names[0].IsExported() {
					list = append(list, spec.Names[0])
				}
			}
		}
	}
	return list
}

func groupDocumented(d *ast.GenDecl) bool {
	if d.Doc != nil {
		return true
	}
	for _, spec := range d.Specs {
		if v, ok := spec.(*ast.ValueSpec); ok && (v.Doc != nil || v.Comment != nil) {
			return true
		}
	}
	return false
}

func exportedReceiver(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	t := f.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	switch g := t.(type) {
	case *ast.IndexExpr:
		t = g.X
	case *ast.IndexListExpr:
		t = g.X
	}
	id, ok := t.(*ast.Ident)
	return ok && id.IsExported()
}

// obvious are methods that an interface everybody knows has already described.
func obvious(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return false
	}
	switch f.Name.Name {
	case "String", "Error", "Unwrap", "Is", "Len", "Less", "Swap", "Push", "Pop", "Read", "Write", "Close",
		"MarshalText", "UnmarshalText", "MarshalJSON", "UnmarshalJSON", "ServeHTTP":
		return true
	}
	return false
}

func TestNoLeftovers(t *testing.T) {
	for _, s := range mustLoad(t).sources {
		for i, line := range strings.Split(string(s.text), "\n") {
			for _, word := range []string{"TO" + "DO", "FIX" + "ME", "XX" + "X:", "not impl" + "emented", `panic("st` + `ub")`} {
				if strings.Contains(line, word) {
					t.Errorf("%s:%d: %q: finish it now, or remove it", s.path, i+1, word)
				}
			}
		}
	}
}

// TestGoroutinesAreWatched: a package that starts goroutines proves in its tests that all of them end. Packages that only
// help tests run inside other packages' tests, which do that.
func TestGoroutinesAreWatched(t *testing.T) {
	starts, watched, helper := map[string]string{}, map[string]bool{}, map[string]bool{}
	tree := mustLoad(t)
	for _, s := range tree.sources {
		if s.test {
			watched[s.pkg] = watched[s.pkg] || bytes.Contains(s.text, []byte("leak.VerifyTestMain("))
			continue
		}
		helper[s.pkg] = helper[s.pkg] || imports(s, "testing") || strings.HasSuffix(s.pkg, "test")
		ast.Inspect(s.parsed, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok && s.parsed.Name.Name != "main" {
				starts[s.pkg] = tree.where(g.Pos())
			}
			return true
		})
	}
	for pkg, at := range starts {
		if !watched[pkg] && !helper[pkg] {
			t.Errorf("%s: %s starts goroutines but no test of it looks for leaks: add func TestMain(m *testing.M) { leak.VerifyTestMain(m) }", at, pkg)
		}
	}
}

func imports(s source, name string) bool {
	return slices.ContainsFunc(s.parsed.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == strconv.Quote(name) })
}
