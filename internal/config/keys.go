package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
)

// EnvPrefix begins the name of every environment variable.
const EnvPrefix = "CANTUS_"

// Key describes one key of the configuration.
type Key struct {
	Path    string   // "tip.size"
	Env     string   // "CANTUS_TIP_SIZE"
	Doc     string   // one line
	Default string   // as text; empty for an empty string or list
	Enum    []string // the allowed values, nil if any
	Secret  bool     // never printed

	index []int // of the field, for reflect
	typ   reflect.Type
}

// section is a group of keys.
type section struct {
	name, doc string
	keys      []Key
}

// sections lists all keys in the order of the struct.
func sections() []section {
	root := reflect.TypeFor[Config]()
	list := make([]section, root.NumField())
	for i := range list {
		field := root.Field(i)
		list[i] = section{name: field.Tag.Get("key"), doc: field.Tag.Get("doc")}
		for j := range field.Type.NumField() {
			list[i].keys = append(list[i].keys, newKey(list[i].name, field.Type.Field(j), []int{i, j}))
		}
	}
	return list
}

func newKey(section string, field reflect.StructField, index []int) Key {
	tag := field.Tag
	key := Key{
		Path:    section + "." + tag.Get("key"),
		Env:     EnvPrefix + strings.ToUpper(section+"_"+tag.Get("key")),
		Doc:     tag.Get("doc"),
		Default: tag.Get("default"),
		Secret:  tag.Get("secret") == "true",
		index:   index,
		typ:     field.Type,
	}
	if enum := tag.Get("enum"); enum != "" {
		key.Enum = strings.Split(enum, ",")
	}
	return key
}

// Keys lists every key, in the order of the file.
func Keys() []Key {
	var all []Key
	for _, s := range sections() {
		all = append(all, s.keys...)
	}
	return all
}

func findKey(path string) (Key, bool) {
	for _, key := range Keys() {
		if key.Path == path {
			return key, true
		}
	}
	return Key{}, false
}

func (k Key) isList() bool { return k.typ.Kind() == reflect.Slice }

// set gives the key its value from text. The values of a list are separated by commas.
func (k Key) set(c *Config, text string) error {
	field := reflect.ValueOf(c).Elem().FieldByIndex(k.index)
	if u, ok := field.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	switch field.Kind() {
	case reflect.Bool:
		return setBool(field, text)
	case reflect.Slice:
		field.Set(reflect.ValueOf(splitList(text)))
	case reflect.String:
		if k.Enum != nil && !contains(k.Enum, text) {
			return fmt.Errorf("%q is not one of %s%s", text, strings.Join(k.Enum, ", "), didYouMean(text, k.Enum))
		}
		field.SetString(text)
	default:
		panic("config: key " + k.Path + " has a type that text cannot set")
	}
	return nil
}

func setBool(field reflect.Value, text string) error {
	switch text {
	case "true":
		field.SetBool(true)
	case "false":
		field.SetBool(false)
	default:
		return fmt.Errorf("%q is neither true nor false", text)
	}
	return nil
}

func splitList(text string) []string {
	var list []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// text is the key's value as set would read it.
func (k Key) text(c *Config) string {
	switch v := reflect.ValueOf(c).Elem().FieldByIndex(k.index).Interface().(type) {
	case encoding.TextMarshaler:
		b, err := v.MarshalText()
		if err != nil {
			panic("config: " + k.Path + ": " + err.Error())
		}
		return string(b)
	case []string:
		return strings.Join(v, ",")
	default:
		return fmt.Sprint(v)
	}
}

// Default is the configuration without file, environment or flags.
func Default() Config {
	var c Config
	for _, key := range Keys() {
		if key.Default == "" {
			continue
		}
		if err := key.set(&c, key.Default); err != nil {
			panic("config: default of " + key.Path + ": " + err.Error())
		}
	}
	return c
}
