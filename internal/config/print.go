package config

import (
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
)

// Encode prints a configuration as YAML that Load reads back to the same values.
func Encode(w io.Writer, c *Config) error {
	return encode(w, c, func(Key) string { return "" })
}

// Print is Encode with the origin of every value in a comment behind it; secrets are hidden.
func (l *Loaded) Print(w io.Writer) error {
	shown := l.Config
	for _, key := range Keys() {
		if key.Secret && key.text(&shown) != "" {
			if err := key.set(&shown, "(hidden)"); err != nil {
				return err
			}
		}
	}
	return encode(w, &shown, func(key Key) string { return " # " + l.Origin(key.Path).String() })
}

func encode(w io.Writer, c *Config, comment func(Key) string) error {
	var b strings.Builder
	for _, sec := range sections() {
		fmt.Fprintf(&b, "%s:\n", sec.name)
		for _, key := range sec.keys {
			name := strings.TrimPrefix(key.Path, sec.name+".")
			fmt.Fprintf(&b, "  %s: %s%s\n", name, key.yaml(c), comment(key))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// yaml is the value as it stands in a file. Free text is always quoted, so that no name turns into a number.
func (k Key) yaml(c *Config) string {
	text := k.text(c)
	switch {
	case k.isList():
		items := splitList(text)
		for i, item := range items {
			items[i] = strconv.Quote(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case k.typ.Kind() == reflect.String && k.Enum == nil:
		return strconv.Quote(text)
	}
	return text
}

// Entry is one value for programs.
type Entry struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
	Env    string `json:"env"`
}

// Entries lists every value with its origin; secrets are hidden.
func (l *Loaded) Entries() []Entry {
	keys := Keys()
	list := make([]Entry, len(keys))
	for i, key := range keys {
		list[i] = Entry{key.Path, key.text(&l.Config), l.Origin(key.Path).String(), key.Env}
		if key.Secret && list[i].Value != "" {
			list[i].Value = "(hidden)"
		}
	}
	return list
}
