package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var (
	shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
	inlineCode = regexp.MustCompile("`(cantus [^`]+)`")
)

// readmeCommands lists the arguments of every cantus command in a page.
func readmeCommands(page string) (list [][]string) {
	var lines []string
	for _, block := range shellBlock.FindAllStringSubmatch(page, -1) {
		lines = append(lines, strings.Split(strings.TrimSpace(block[1]), "\n")...)
	}
	for _, code := range inlineCode.FindAllStringSubmatch(page, -1) {
		lines = append(lines, code[1])
	}
	for _, line := range lines {
		line = strings.TrimPrefix(line, "go run ./cmd/")
		if args, ok := strings.CutPrefix(line, "cantus "); ok {
			list = append(list, shellFields(args))
		}
	}
	return list
}

// shellFields splits at spaces outside single quotes.
func shellFields(line string) (fields []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			fields = append(fields, part)
			continue
		}
		fields = append(fields, strings.Fields(part)...)
	}
	return fields
}

// TestPagesNameRealCommands: commands, flags and files that the Markdown pages show exist.
func TestPagesNameRealCommands(t *testing.T) {
	root := filepath.Join("..", "..")
	pages, _ := filepath.Glob(filepath.Join(root, "*.md"))
	deeper, _ := filepath.Glob(filepath.Join(root, "*", "*.md"))
	count := 0
	for _, page := range append(pages, deeper...) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, args := range readmeCommands(string(text)) {
			count++
			if problem := checkCommand(root, args); problem != "" {
				t.Errorf("%s: cantus %s: %s", page, strings.Join(args, " "), problem)
			}
		}
	}
	if count < 10 {
		t.Errorf("only %d commands found: has the form of the pages changed?", count)
	}
}

// checkCommand says what is wrong with a command line, or nothing.
func checkCommand(root string, args []string) string {
	tree := newRoot(streams{})
	tree.InitDefaultCompletionCmd(args...)
	cmd, rest, err := tree.Find(args)
	if err != nil {
		return err.Error()
	}
	if cmd == tree {
		return "no such command"
	}
	cmd.InitDefaultHelpFlag()
	if err := cmd.ParseFlags(rest); err != nil {
		return err.Error()
	}
	positional := cmd.Flags().Args()
	// A page may name a command without its arguments.
	if len(positional) > 0 {
		if err := validateArgs(cmd, positional); err != nil {
			return err.Error()
		}
	}
	for _, arg := range rest {
		if strings.HasPrefix(arg, "configs/") {
			if _, err := os.Stat(filepath.Join(root, arg)); err != nil {
				return err.Error()
			}
		}
	}
	return ""
}

func validateArgs(cmd *cobra.Command, args []string) error {
	if cmd.Args == nil {
		return nil
	}
	return cmd.Args(cmd, args)
}

func TestCheckCommandFindsMistakes(t *testing.T) {
	root := filepath.Join("..", "..")
	for line, ok := range map[string]bool{
		"serve --dev": true, "sub 'a b/**' --from first": true, "completion": true, "node add": true,
		"serve --devel": false, "nodes": false, "serve --config configs/none.yaml": false, "pub a b c": false, "node replace x": false,
	} {
		if problem := checkCommand(root, shellFields(line)); (problem == "") != ok {
			t.Errorf("%s: %q", line, problem)
		}
	}
}
