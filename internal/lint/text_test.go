package lint

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// topLevel is all that may stand in the root.
var topLevel = []string{
	".ci", ".git", ".gitignore", "LICENSE", "README.md", "client", "cluster", "cmd", "configs", "fsm", "go.mod", "go.sum", "internal",
	"jepsen", "subtree", "tipstore", "transport",
}

// ignored are names that .gitignore keeps out of the history.
func ignored(name string) bool {
	return slices.Contains([]string{"cantus", "data", "cantus-data"}, name) ||
		slices.ContainsFunc([]string{".test", ".prof", ".out"}, func(end string) bool { return strings.HasSuffix(name, end) })
}

func TestTopLevel(t *testing.T) {
	entries, err := os.ReadDir(mustLoad(t).root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(topLevel, e.Name()) && !ignored(e.Name()) {
			t.Errorf("%s: does not belong at the top: put it into the folder of what it is about", e.Name())
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile("(?m)^#+ +(.*)$")
	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors lists the fragments that a page's headings can be reached by.
func anchors(page string) []string {
	var list []string
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		a := dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(m[1])), "")
		list = append(list, strings.ReplaceAll(a, " ", "-"))
	}
	return list
}

func TestMarkdownLinks(t *testing.T) {
	tree := mustLoad(t)
	for _, page := range tree.other {
		if !strings.HasSuffix(page, ".md") {
			continue
		}
		text, err := tree.read(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			if broken := tree.followLink(page, m[1]); broken != "" {
				t.Errorf("%s: link %s: %s: mend or remove it", page, m[1], broken)
			}
		}
	}
}

// followLink says what is wrong with a link from page, or nothing. Links to other sites are not followed.
func (t *tree) followLink(page, target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return err.Error()
	}
	if u.Scheme != "" {
		return ""
	}
	to := page
	if u.Path != "" {
		to = path.Join(path.Dir(page), u.Path)
	}
	if _, err := os.Stat(filepath.Join(t.root, to)); err != nil {
		return "there is no " + to
	}
	if u.Fragment != "" && strings.HasSuffix(to, ".md") {
		text, err := t.read(to)
		if err != nil {
			return err.Error()
		}
		if !slices.Contains(anchors(text), u.Fragment) {
			return "no heading of " + to + " has that anchor"
		}
	}
	return ""
}

// TestForbiddenWords: the project does not say on which machine or from where it was built.
func TestForbiddenWords(t *testing.T) {
	forbidden := map[string]string{
		"/wo" + "rk/":             "a path of one machine: write it relative to the repository",
		"/ro" + "ot/":             "a path of one machine: write it relative to the repository",
		"/ho" + "me/":             "a path of one machine: write it relative to the repository",
		"proxy.go" + "lang.org":   "a registry's host: the go command knows where modules come from",
		"sum.go" + "lang.org":     "a registry's host: the go command knows where sums come from",
		"GOPR" + "OXY":            "a registry setting: leave it to the user's environment",
		"deb." + "debian.org":     "a registry's host: apt knows its sources",
		"storage.goog" + "leapis": "a registry's host: the go command knows where toolchains come from",
	}
	tree := mustLoad(t)
	check := func(name, text string) {
		for word, why := range forbidden {
			if at := strings.Index(text, word); at >= 0 {
				t.Errorf("%s:%d: %q is %s", name, 1+strings.Count(text[:at], "\n"), word, why)
			}
		}
	}
	for _, s := range tree.sources {
		check(s.path, string(s.text))
	}
	for _, name := range tree.other {
		if path.Base(name) == "go.sum" || strings.HasSuffix(name, ".gz") || ignored(name) {
			continue
		}
		text, err := tree.read(name)
		if err != nil {
			t.Fatal(err)
		}
		check(name, text)
	}
}
