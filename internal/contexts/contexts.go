// Package contexts keeps the user's named clusters in one small file, so that commands need no addresses.
//
// It promises that the file is replaced as a whole, never left half written, and that an unreadable file is an error that
// names it. It holds addresses only: no credentials.
package contexts

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Context is a named cluster.
type Context struct {
	Name    string   `yaml:"name" json:"name"`
	Servers []string `yaml:"servers,omitempty" json:"servers"` // data plane, host:port
	HTTP    []string `yaml:"http,omitempty" json:"http"`       // control plane, host:port
}

// File is all contexts of a user.
type File struct {
	Current  string    `yaml:"current,omitempty"` // Invariant: empty or the name of one of Contexts
	Contexts []Context `yaml:"contexts"`          // Invariant: sorted by name, names distinct
}

// DefaultPath is where the file is unless the user says otherwise.
func DefaultPath() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("find the folder for contexts: %w: name a file with --contexts", err)
	}
	return filepath.Join(dir, "cantus", "contexts.yaml"), nil
}

// Load reads the file at path; a missing file is an empty one.
func Load(path string) (*File, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &File{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read contexts: %w", err)
	}
	f := &File{}
	if err := yaml.NewDecoder(bytes.NewReader(b), yaml.Strict()).Decode(f); err != nil && len(bytes.TrimSpace(b)) > 0 {
		return nil, fmt.Errorf("read contexts: %s: %s: mend or remove it", path, yaml.FormatError(err, false, false))
	}
	f.sort()
	if _, ok := f.Find(f.Current); f.Current != "" && !ok {
		return nil, fmt.Errorf("read contexts: %s: current is %q, which is none of %s: mend or remove it", path, f.Current, f.names())
	}
	return f, nil
}

func (f *File) sort() {
	slices.SortFunc(f.Contexts, func(a, b Context) int { return strings.Compare(a.Name, b.Name) })
}

func (f *File) names() string {
	list := make([]string, len(f.Contexts))
	for i, c := range f.Contexts {
		list[i] = c.Name
	}
	return strings.Join(list, ", ")
}

// Find returns the context of that name.
func (f *File) Find(name string) (Context, bool) {
	for _, c := range f.Contexts {
		if c.Name == name {
			return c, true
		}
	}
	return Context{}, false
}

// Add adds or replaces a context. The first one becomes current.
func (f *File) Add(c Context) error {
	if c.Name == "" || strings.ContainsAny(c.Name, " \t\n/") {
		return fmt.Errorf("context name %q: use one word without spaces or slashes", c.Name)
	}
	f.Contexts = slices.DeleteFunc(f.Contexts, func(old Context) bool { return old.Name == c.Name })
	f.Contexts = append(f.Contexts, c)
	f.sort()
	if f.Current == "" {
		f.Current = c.Name
	}
	return nil
}

// Use makes a context current.
func (f *File) Use(name string) error {
	if _, ok := f.Find(name); !ok && len(f.Contexts) == 0 {
		return fmt.Errorf("no context %q, nor any other: cantus context add %s makes it", name, name)
	} else if !ok {
		return fmt.Errorf("no context %q: there are: %s", name, f.names())
	}
	f.Current = name
	return nil
}

// Save replaces the file at path: it is written beside it and renamed into place.
func (f *File) Save(path string) error {
	b, err := yaml.Marshal(f)
	if err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	tmp := path + ".new"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("write contexts: %w", errors.Join(err, os.Remove(tmp)))
	}
	return nil
}
