package config

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestLoad runs testdata/load: each case is a file, with environment and flags as arguments; the result is every value
// that is not its default, or the errors.
func TestLoad(t *testing.T) {
	datadriven.RunTest(t, "testdata/load", func(t *testing.T, d *datadriven.TestData) string {
		in := Inputs{Name: "node.yaml", File: []byte(d.Input)}
		for _, arg := range d.CmdArgs {
			for _, v := range arg.Vals {
				switch arg.Key {
				case "env":
					in.Environ = append(in.Environ, v)
				case "flag":
					path, value, _ := strings.Cut(v, "=")
					in.Flags = append(in.Flags, Flag{Name: "--set", Path: path, Value: value})
				default:
					d.Fatalf(t, "unknown argument %s", arg.Key)
				}
			}
		}
		l, err := Load(in)
		if err != nil {
			return err.Error() + "\n"
		}
		var b strings.Builder
		for _, e := range l.Entries() {
			if e.Origin != string(FromDefault) {
				fmt.Fprintf(&b, "%s = %q (%s)\n", e.Key, e.Value, e.Origin)
			}
		}
		return b.String()
	})
}

func TestDefaultIsValid(t *testing.T) {
	c := Default()
	if p := c.problems(); len(p) > 0 {
		t.Fatalf("the defaults break rules: %v", p)
	}
}

func TestEveryKeyIsDescribed(t *testing.T) {
	seen := map[string]string{}
	for _, key := range Keys() {
		if key.Doc == "" || strings.HasSuffix(key.Path, ".") {
			t.Errorf("key %s has no name or documentation", key.Path)
		}
		if other, taken := seen[key.Env]; taken {
			t.Errorf("%s and %s share the variable %s", key.Path, other, key.Env)
		}
		seen[key.Env] = key.Path
	}
}

// TestEncodeRoundTrip changes every key, prints, and reads back.
func TestEncodeRoundTrip(t *testing.T) {
	changed := Default()
	for path, text := range map[string]string{
		"node.name": "7: x", "node.data": "/tmp/x y", "cluster.join": "a:1,b:2", "cluster.bootstrap_expect": "3",
		"listen.client": "[::1]:0", "tip.size": "65MiB", "tip.index": "off", "log.codec": "lz4", "limits.topics": "1500",
		"raft.commit_timeout": "1.5ms", "http.pprof": "true", "logging.level": "warn",
	} {
		key, ok := findKey(path)
		if !ok {
			t.Fatalf("no key %s", path)
		}
		if err := key.set(&changed, text); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := Encode(&b, &changed); err != nil {
		t.Fatal(err)
	}
	l, err := Load(Inputs{Name: "printed", File: b.Bytes()})
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	for _, key := range Keys() {
		if got, want := key.text(&l.Config), key.text(&changed); got != want {
			t.Errorf("%s: read %q back, printed %q", key.Path, got, want)
		}
	}
}

func TestPrintHidesSecrets(t *testing.T) {
	const secret = "MDEyMzQ1Njc4OWFiY2RlZg=="
	l, err := Load(Inputs{Environ: []string{"CANTUS_CLUSTER_GOSSIP_KEY=" + secret}})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := l.Print(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String() + fmt.Sprint(l.Entries())
	if strings.Contains(text, secret) || !strings.Contains(b.String(), `gossip_key: "(hidden)" # environment CANTUS_CLUSTER_GOSSIP_KEY`) {
		t.Errorf("printed:\n%s", b.String())
	}
	if l.Config.Cluster.GossipKey != secret {
		t.Error("printing changed the configuration")
	}
}

// FuzzLoad: no file makes Load panic, and what it accepts prints and reads back.
func FuzzLoad(f *testing.F) {
	f.Add("tip:\n  size: 64MiB\n")
	f.Add("cluster:\n  join: [a:1, b:2]\n  name: |\n    x\n")
	f.Add("? a\n: b\n---\n- 1\n")
	f.Add("node: &a {data: *a}\n")
	f.Fuzz(func(t *testing.T, file string) {
		l, err := Load(Inputs{Name: "f", File: []byte(file)})
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := Encode(&b, &l.Config); err != nil {
			t.Fatal(err)
		}
		again, err := Load(Inputs{Name: "printed", File: b.Bytes()})
		if err != nil {
			t.Fatalf("accepted %q but not its print: %v\n%s", file, err, b.String())
		}
		for _, key := range Keys() {
			if got, want := key.text(&again.Config), key.text(&l.Config); got != want {
				t.Fatalf("%s: read %q back, printed %q", key.Path, got, want)
			}
		}
	})
}
