package config

import (
	"encoding/json"
	"reflect"
	"strings"
)

// schema is the part of JSON Schema (draft 2020-12) that the configuration needs.
type schema struct {
	Schema      string             `json:"$schema,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        any                `json:"type,omitempty"` // a string or a list of them
	Enum        []string           `json:"enum,omitempty"`
	Pattern     string             `json:"pattern,omitempty"`
	Default     any                `json:"default,omitempty"`
	Items       *schema            `json:"items,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Additional  *bool              `json:"additionalProperties,omitempty"`
}

// Schema is the JSON Schema of the file, for editors. configs/cantus.schema.json holds a copy.
func Schema() ([]byte, error) {
	root := object("The configuration of a Cantus node.")
	root.Schema = "https://json-schema.org/draft/2020-12/schema"
	root.Title = "Cantus"
	for _, sec := range sections() {
		s := object(sec.doc)
		for _, key := range sec.keys {
			s.Properties[strings.TrimPrefix(key.Path, sec.name+".")] = key.schema()
		}
		root.Properties[sec.name] = s
	}
	b, err := json.MarshalIndent(root, "", "  ")
	return append(b, '\n'), err
}

func object(doc string) *schema {
	no := false
	return &schema{Description: doc, Type: "object", Properties: map[string]*schema{}, Additional: &no}
}

func (k Key) schema() *schema {
	s := &schema{Description: k.Doc + " Environment: " + k.Env + ".", Enum: k.Enum}
	if k.Default != "" {
		s.Default = k.Default
	}
	switch k.typ {
	case reflect.TypeFor[Size]():
		s.Type, s.Pattern = []string{"string", "integer"}, `^[0-9.]+ ?([kKMGTP]i?)?B?$`
	case reflect.TypeFor[Count]():
		s.Type, s.Pattern = []string{"string", "integer"}, `^[0-9._]+[kKMG]?$`
	case reflect.TypeFor[Duration]():
		s.Type, s.Pattern = "string", `^([0-9.]+(ns|us|µs|ms|s|m|h|d))+$`
	case reflect.TypeFor[bool]():
		s.Type, s.Default = "boolean", k.Default == "true"
	case reflect.TypeFor[[]string]():
		s.Type, s.Items = []string{"array", "string"}, &schema{Type: "string"}
	default:
		s.Type = "string"
	}
	return s
}
