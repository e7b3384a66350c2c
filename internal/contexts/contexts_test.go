package contexts

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestAddUseSaveLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "contexts.yaml")
	f, err := Load(path)
	if err != nil || len(f.Contexts) != 0 {
		t.Fatalf("missing file: %+v, %v", f, err)
	}
	prod := Context{Name: "prod", Servers: []string{"a:4790", "b:4790"}, HTTP: []string{"a:4791"}}
	for _, c := range []Context{prod, {Name: "dev", Servers: []string{"old:1"}}, {Name: "dev", Servers: []string{"127.0.0.1:4790"}}} {
		if err := f.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	if f.Current != "prod" {
		t.Errorf("the first context is not current but %q", f.Current)
	}
	if err := f.Use("dev"); err != nil {
		t.Fatal(err)
	}
	if err := f.Use("none"); err == nil || !strings.Contains(err.Error(), "dev, prod") {
		t.Errorf("unknown context: %v", err)
	}
	if err := f.Save(path); err != nil {
		t.Fatal(err)
	}
	again, err := Load(path)
	if err != nil || !reflect.DeepEqual(again, f) || len(again.Contexts) != 2 {
		t.Errorf("read back %+v, %v; saved %+v", again, err, f)
	}
	if got, _ := again.Find("prod"); !reflect.DeepEqual(got, prod) {
		t.Errorf("prod is %+v", got)
	}
}

func TestBadNamesAndFiles(t *testing.T) {
	f := &File{}
	for _, name := range []string{"", "a b", "a/b"} {
		if f.Add(Context{Name: name}) == nil {
			t.Errorf("name %q accepted", name)
		}
	}
	for content, want := range map[string]string{
		"current: x\ncontexts: []\n": "current is \"x\"",
		"contexts: [\n":              "mend or remove it",
		"servers: 1\n":               "unknown field",
	} {
		path := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", content, err)
		}
	}
}
