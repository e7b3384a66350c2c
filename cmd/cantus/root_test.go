package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cantus-bus/cantus/internal/config"
)

// nobody is an address where nothing listens: port 1 on loopback needs rights that no test has.
var nobody = []string{"CANTUS_SERVER=127.0.0.1:1", "CANTUS_HTTP=127.0.0.1:1", "CANTUS_TIMEOUT=50ms"}

// exitCodes of command lines that need no node.
var exitCodes = map[string]int{
	"":                              0,
	"version":                       0,
	"--help":                        0,
	"help serve":                    0,
	"completion bash":               0,
	"nonsense":                      2,
	"node nonsense":                 2,
	"status --nonsense":             2,
	"status extra":                  2,
	"pub":                           2,
	"pub a b c":                     2,
	"pub a b --header nokey":        2,
	"sub":                           2,
	"sub ** --from yesterday":       2,
	"sub ** --to end":               2,
	"get":                           2,
	"get a/b":                       1,
	"get a --seq x":                 2,
	"get --seq 1":                   1,
	"replay":                        2,
	"replay f --speed fast":         2,
	"replay f --payload zeros":      2,
	"replay /nonexistent/file":      1,
	"serve":                         2,
	"serve --dev --config x":        2,
	"serve --config /nonexistent/x": 1,
	"serve --dev --set tip":         2,
	"serve --dev --set tip.x=1":     1,
	"config check /nonexistent/x":   1,
	"config print":                  0,
	"config print f --config f":     2,
	"config check f --config f":     2,
	"config check":                  2,
	"config print --config /no/x":   1,
	"demo --nodes 0":                2,
	"demo --nodes 10":               2,
	"topics --limit 0":              2,
	"topics --limit 10001":          2,
	"topics --depth -1":             2,
	"topics --offset -1":            2,
	"topics --sort age":             2,
	"replay f --producers 0":        2,
	"replay f --producers 1025":     2,
	"replay f --inflight -1":        2,
	"get a --wait -1s":              2,
	"status --timeout 0":            2,
	"status --timeout -5s":          2,
	"bench publish --clients 0":     2,
	"bench publish --clients 99999": 2,
	"bench publish --msgs 0":        2,
	"bench publish --size 1048577":  2,
	"bench publish --topics 0":      2,
	"bench publish --inflight -1":   2,
	"bench publish --linger -1s":    2,
	"bench publish --rate -1":       2,
	"bench publish --rate NaN":      2,
	"bench tip --messages 0":        2,
	"bench split f --budget 0":      2,
	"demo --for 1ms":                2,
	"bench publish --payload zeros": 2,
	"bench tip --heap nonsense":     2,
	"bench tip --interleave no":     2,
	"bench tip --messages 1000 --partitions 4 --repeat 1": 0,
	"status":                1,
	"topics":                1,
	"verify":                1,
	"pub a b":               1,
	"status --http ftp://x": 2,
	"status --context none": 2,
	"context use none":      2,
}

func TestExitCodes(t *testing.T) {
	for line, want := range exitCodes {
		r := cantus(t, nobody, strings.Fields(line)...)
		if r.code != want {
			t.Errorf("cantus %s: exit code %d, want %d\nout: %.300s\nerr: %.300s", line, r.code, want, r.out, r.err)
		}
		if r.code != 0 && (r.err == "" || r.out != "") {
			t.Errorf("cantus %s: a failure belongs on standard error: out %q, err %q", line, r.out, r.err)
		}
		if r.code == 2 && !strings.Contains(r.err, "--help") {
			t.Errorf("cantus %s: wrong use without a hint: %q", line, r.err)
		}
	}
}

// TestMisuseSaysTheUse: wrong arguments are answered by the right ones.
func TestMisuseSaysTheUse(t *testing.T) {
	for line, want := range map[string]string{
		"backup": `use it as "cantus backup DIR [flags]"`, "pub": "PAYLOAD", "nodes": "did you mean node?", "node lst": "did you mean list?", "context use none": "context add none", "status extra": `unknown command "extra"`,
	} {
		if r := cantus(t, nobody, strings.Fields(line)...); r.code != 2 || !strings.Contains(r.err, want) {
			t.Errorf("cantus %s: exit code %d, lacks %q: %s", line, r.code, want, r.err)
		}
	}
}

func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, sub := range cmd.Commands() {
		walk(sub, visit)
	}
}

// TestFlagsAndKeysDoNotCollide: a flag's variable must not look like a configuration key, else serve would take it for one.
func TestFlagsAndKeysDoNotCollide(t *testing.T) {
	walk(newRoot(streams{}), func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			r := config.Inputs{Environ: []string{flagEnv(f.Name) + "="}}
			if _, err := config.Load(r); err != nil {
				t.Errorf("%s --%s: its variable is taken for a configuration key: %v", cmd.CommandPath(), f.Name, err)
			}
		})
	})
}

func TestEveryCommandHelps(t *testing.T) {
	walk(newRoot(streams{}), func(cmd *cobra.Command) {
		if cmd.Short == "" || cmd.Args == nil && cmd.RunE != nil {
			t.Errorf("%s: needs a short description and a check of its arguments", cmd.CommandPath())
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !strings.Contains(f.Usage, flagEnv(f.Name)) {
				t.Errorf("%s --%s: its help does not name %s: %q", cmd.CommandPath(), f.Name, flagEnv(f.Name), f.Usage)
			}
		})
	})
}

// TestPrecedence: flag, environment, context, default.
func TestPrecedence(t *testing.T) {
	path := t.TempDir() + "/contexts.yaml"
	env := []string{"CANTUS_CONTEXTS=" + path}
	must(t, cantus(t, env, "context", "add", "prod", "--server", "a:1,b:2", "--http", "a:3"))
	must(t, cantus(t, env, "context", "add", "dev", "--server", "c:1"))
	must(t, cantus(t, env, "context", "use", "dev"))
	must(t, cantus(t, env, "context", "use", "prod"))
	for name, test := range map[string]struct {
		env, args []string
		want      []string
	}{
		"default":     {[]string{"CANTUS_CONTEXTS=" + path + ".none"}, nil, []string{defaultServer}},
		"context":     {env, nil, []string{"a:1", "b:2"}},
		"named":       {env, []string{"--context", "dev"}, []string{"c:1"}},
		"environment": {append(env, "CANTUS_SERVER=e:1"), nil, []string{"e:1"}},
		"flag":        {append(env, "CANTUS_SERVER=e:1"), []string{"--server", "f:1"}, []string{"f:1"}},
	} {
		a := &app{}
		root := newRootFor(a, streams{environ: test.env})
		root.AddCommand(&cobra.Command{Use: "probe", RunE: func(*cobra.Command, []string) error { return nil }})
		root.SetArgs(append([]string{"probe"}, test.args...))
		if err := root.Execute(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(a.servers, test.want) {
			t.Errorf("%s: servers %v, want %v", name, a.servers, test.want)
		}
	}
	r := must(t, cantus(t, env, "context", "list", "--json"))
	list := decode[struct {
		Current  string
		Contexts []struct{ Name string }
	}](t, r)
	if list.Current != "prod" || len(list.Contexts) != 2 {
		t.Errorf("contexts: %+v", list)
	}
}

func TestBadEnvironment(t *testing.T) {
	for _, bad := range []string{"soon", "0"} {
		r := cantus(t, []string{"CANTUS_TIMEOUT=" + bad}, "status")
		if r.code != 2 || !strings.Contains(r.err, "CANTUS_TIMEOUT") {
			t.Errorf("%s: exit code %d: %s", bad, r.code, r.err)
		}
	}
}

// TestNumbersHaveBounds: a number or a time that nobody checks fails somewhere deep, with other words each time, or never ends.
func TestNumbersHaveBounds(t *testing.T) {
	free := map[string]bool{"count": true, "seq": true, "min-seq": true} // any uint64 means something
	own := map[string]bool{"bench tip": true, "bench split": true}       // checked together, by the packages that measure
	walk(newRoot(streams{}), func(cmd *cobra.Command) {
		if own[strings.TrimPrefix(cmd.CommandPath(), "cantus ")] {
			return
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			switch f.Value.Type() {
			case "int", "int64", "uint64", "float64", "duration":
				if _, bounded := f.Value.(interface{ bounded() }); !bounded && !free[f.Name] {
					t.Errorf("%s --%s takes any number: give it bounds", cmd.CommandPath(), f.Name)
				}
			}
		})
	})
}

func TestConfigCommands(t *testing.T) {
	must(t, cantus(t, nil, "config", "check", "../../configs/three-nodes/a.yaml"))
	r := must(t, cantus(t, []string{"CANTUS_TIP_SIZE=64MiB"}, "config", "print", "../../configs/single.yaml"))
	for _, want := range []string{"size: 64MiB # environment CANTUS_TIP_SIZE", `name: "solo" # file ../../configs/single.yaml:`, "commit_timeout: 5ms # default"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("config print lacks %q:\n%s", want, r.out)
		}
	}
	for _, env := range [][]string{nil, {"CANTUS_CONFIG=../../configs/single.yaml"}} {
		args := []string{"--config", "../../configs/single.yaml"}
		if env != nil {
			args = nil
		}
		must(t, cantus(t, env, append([]string{"config", "check"}, args...)...))
		if got := must(t, cantus(t, append(env, "CANTUS_TIP_SIZE=64MiB"), append([]string{"config", "print"}, args...)...)); got.out != r.out {
			t.Errorf("config print with %v and %v is not as with FILE:\n%s", env, args, got.out)
		}
	}
	r = cantus(t, []string{"CANTUS_TIP_SIZ=64MiB"}, "config", "check", "../../configs/single.yaml")
	if r.code != 1 || !strings.Contains(r.err, "did you mean CANTUS_TIP_SIZE?") {
		t.Errorf("unknown variable: exit code %d: %s", r.code, r.err)
	}
}
