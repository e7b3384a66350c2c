package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Source names where a value came from, in rising order of precedence.
type Source string

// The sources of a value.
const (
	FromDefault Source = "default"
	FromFile    Source = "file"
	FromEnv     Source = "environment"
	FromFlag    Source = "flag"
)

// Origin says where a value came from.
type Origin struct {
	Source Source
	Detail string // "node.yaml:3:7", the variable's or the flag's name; empty for a default
}

// String prints "file node.yaml:3:7".
func (o Origin) String() string {
	if o.Detail == "" {
		return string(o.Source)
	}
	return string(o.Source) + " " + o.Detail
}

// Flag is one value from the command line.
type Flag struct {
	Name  string // as the user wrote it, "--data"
	Path  string // the key it sets, "node.data"
	Value string
}

// Inputs are all places that configuration comes from.
type Inputs struct {
	Name    string   // of the file, for messages
	File    []byte   // its content; nil if there is no file
	Environ []string // "KEY=value"; variables that do not begin with CANTUS_ and a section are ignored
	Flags   []Flag
}

// Loaded is a valid configuration whose values know where they came from.
type Loaded struct {
	Config  Config
	origins map[string]Origin
}

// Origin of the value of a key, by its path.
func (l *Loaded) Origin(path string) Origin {
	if o, ok := l.origins[path]; ok {
		return o
	}
	return Origin{Source: FromDefault}
}

// setting is one value on its way into the configuration.
type setting struct {
	key    Key
	text   string
	origin Origin
}

// Load combines the inputs and validates the result. The error joins everything that is wrong, one line each.
func Load(in Inputs) (*Loaded, error) {
	l := &Loaded{Config: Default(), origins: map[string]Origin{}}
	file, errs := fileSettings(in.Name, in.File)
	env, envErrs := envSettings(in.Environ)
	flags, flagErrs := flagSettings(in.Flags)
	errs = slices.Concat(errs, envErrs, flagErrs)
	for _, s := range slices.Concat(file, env, flags) {
		if err := s.key.set(&l.Config, s.text); err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", s.origin.Detail, s.key.Path, err))
			continue
		}
		l.origins[s.key.Path] = s.origin
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	for _, p := range l.Config.problems() {
		errs = append(errs, fmt.Errorf("%s: %s (%s)", p.path, p.text, l.Origin(p.path)))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return l, nil
}

// LoadFile is Load with the file at path; an empty path means no file.
func LoadFile(path string, environ []string, flags []Flag) (*Loaded, error) {
	in := Inputs{Name: path, Environ: environ, Flags: flags}
	if path != "" {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read configuration: %w", err)
		}
		in.File = content
	}
	return Load(in)
}

// envSettings takes the variables of known sections; an unknown key of a known section is an error, because a slip of the
// finger must not leave a default in force unseen.
func envSettings(environ []string) (list []setting, errs []error) {
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		for _, sec := range sections() {
			prefix := EnvPrefix + strings.ToUpper(sec.name) + "_"
			if !strings.HasPrefix(name, prefix) {
				continue
			}
			names := make([]string, len(sec.keys))
			for i, key := range sec.keys {
				names[i] = key.Env
			}
			i := slices.Index(names, name)
			if i < 0 {
				errs = append(errs, fmt.Errorf("environment: unknown variable %s%s", name, didYouMean(name, names)))
				continue
			}
			list = append(list, setting{sec.keys[i], value, Origin{FromEnv, name}})
		}
	}
	slices.SortFunc(list, func(a, b setting) int { return cmp.Compare(a.key.Env, b.key.Env) })
	return list, errs
}

func flagSettings(flags []Flag) (list []setting, errs []error) {
	for _, f := range flags {
		key, ok := findKey(f.Path)
		if !ok {
			errs = append(errs, fmt.Errorf("flag %s: unknown key %s%s", f.Name, f.Path, didYouMean(f.Path, paths())))
			continue
		}
		list = append(list, setting{key, f.Value, Origin{FromFlag, f.Name}})
	}
	return list, errs
}

func paths() []string {
	keys := Keys()
	list := make([]string, len(keys))
	for i, key := range keys {
		list[i] = key.Path
	}
	return list
}
