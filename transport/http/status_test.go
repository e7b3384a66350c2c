package http

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/cantus-bus/cantus/cluster"
)

// TestOpenAPIDescribesTheStatus: every field of a status, and of what it holds, stands in the document, and nothing else does.
func TestOpenAPIDescribesTheStatus(t *testing.T) {
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any `yaml:"properties"`
			} `yaml:"schemas"`
		} `yaml:"components"`
	}
	if err := yaml.Unmarshal(openAPI, &doc); err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string]reflect.Type{
		"Status": reflect.TypeFor[cluster.Status](), "Node": reflect.TypeFor[cluster.NodeStatus](), "Snapshot": reflect.TypeFor[cluster.SnapshotInfo](),
		"CatchUp": reflect.TypeFor[cluster.CatchUpStatus](), "History": reflect.TypeFor[cluster.HistoryStatus](), "SteppedAside": reflect.TypeFor[cluster.AsideStatus](),
	} {
		var fields []string
		for i := range of.NumField() {
			tag, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			fields = append(fields, tag)
		}
		slices.Sort(fields)
		if described := slices.Sorted(maps.Keys(doc.Components.Schemas[name].Properties)); !slices.Equal(described, fields) {
			t.Errorf("openapi.yaml and %v differ:\n%q\n%q", of, described, fields)
		}
	}
}
