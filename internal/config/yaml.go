package config

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// yamlFile walks the syntax tree of one file. The tree is read directly, not decoded into a struct, because only the tree
// knows the line and column of every value.
type yamlFile struct {
	name     string
	settings []setting
	errs     []error
}

// fileSettings reads a file's values in the order in which they stand there.
func fileSettings(name string, content []byte) ([]setting, []error) {
	f := &yamlFile{name: name}
	if len(content) == 0 {
		return nil, nil
	}
	tree, err := parser.ParseBytes(content, 0)
	if err != nil {
		return nil, []error{syntaxError(name, err)}
	}
	for i, doc := range tree.Docs {
		if i > 0 && doc.Body != nil {
			f.fail(doc.Body.GetToken(), "a second document: a configuration is one")
			break
		}
		f.root(doc.Body)
	}
	return f.settings, f.errs
}

func syntaxError(name string, err error) error {
	if se, ok := err.(yaml.Error); ok && se.GetToken() != nil {
		pos := se.GetToken().Position
		return fmt.Errorf("%s:%d:%d: not valid YAML: %s", name, pos.Line, pos.Column, se.GetMessage())
	}
	return fmt.Errorf("%s: not valid YAML: %s", name, strings.ReplaceAll(err.Error(), "\n", " "))
}

func (f *yamlFile) at(t *token.Token) string {
	return fmt.Sprintf("%s:%d:%d", f.name, t.Position.Line, t.Position.Column)
}

func (f *yamlFile) fail(t *token.Token, format string, args ...any) {
	f.errs = append(f.errs, fmt.Errorf("%s: "+format, append([]any{f.at(t)}, args...)...))
}

// pairs lists the entries of a mapping; ok is false if the node is none.
func pairs(node ast.Node) (list []*ast.MappingValueNode, ok bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

func (f *yamlFile) root(body ast.Node) {
	switch body.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
		return
	}
	entries, ok := pairs(body)
	if !ok {
		f.fail(body.GetToken(), "expected sections such as \"node:\", found %q", body.GetToken().Value)
		return
	}
	known := sections()
	names := make([]string, len(known))
	byName := map[string]section{}
	for i, s := range known {
		names[i], byName[s.name] = s.name, s
	}
	for _, entry := range entries {
		t := entry.Key.GetToken()
		if sec, ok := byName[t.Value]; ok {
			f.section(sec, entry)
			continue
		}
		f.fail(t, "unknown section %q%s", t.Value, didYouMean(t.Value, names))
	}
}

func (f *yamlFile) section(sec section, entry *ast.MappingValueNode) {
	if _, empty := entry.Value.(*ast.NullNode); empty {
		return // a section whose keys are all commented out
	}
	entries, ok := pairs(entry.Value)
	if !ok {
		f.fail(entry.Value.GetToken(), "section %s holds keys, not a value: write each on a line of its own below it", sec.name)
		return
	}
	names := make([]string, len(sec.keys))
	byName := map[string]Key{}
	for i, key := range sec.keys {
		names[i] = strings.TrimPrefix(key.Path, sec.name+".")
		byName[names[i]] = key
	}
	for _, pair := range entries {
		t := pair.Key.GetToken()
		key, ok := byName[t.Value]
		if !ok {
			f.fail(t, "unknown key %q in section %s%s", t.Value, sec.name, didYouMean(t.Value, names))
			continue
		}
		if text, ok := f.value(key, pair.Value); ok {
			f.settings = append(f.settings, setting{key, text, Origin{FromFile, f.at(pair.Value.GetToken())}})
		}
	}
}

// value reads what stands behind a key; ok is false after an error.
func (f *yamlFile) value(key Key, node ast.Node) (text string, ok bool) {
	if seq, isSeq := node.(*ast.SequenceNode); isSeq {
		if !key.isList() {
			f.fail(node.GetToken(), "%s takes one value, not a list", key.Path)
			return "", false
		}
		items := make([]string, len(seq.Values))
		for i, item := range seq.Values {
			if items[i], ok = f.scalar(key, item); !ok {
				return "", false
			}
		}
		return strings.Join(items, ","), true
	}
	return f.scalar(key, node)
}

func (f *yamlFile) scalar(key Key, node ast.Node) (text string, ok bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	case *ast.NullNode:
		f.fail(n.GetToken(), "%s has no value: give it one or remove the line", key.Path)
	default:
		f.fail(node.GetToken(), "%s takes a plain value, found %s", key.Path, node.Type())
	}
	return "", false
}
