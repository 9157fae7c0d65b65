package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/internal/mdtest"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// TestDocs_Commands parses every "holdfast ..." line in the code blocks of the
// project's documents with the real command line: also those that TestDocs_Run does not
// run.
func TestDocs_Commands(t *testing.T) {
	t.Parallel()
	pages, err := mdtest.Pages(docsRoot)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range pages {
		for _, b := range page.Blocks {
			if b.Lang == "usage" || b.Lang == mdtest.Hidden {
				continue // patterns, and what a shell makes of variables
			}
			for line := range strings.Lines(b.Text) {
				args, ok := strings.CutPrefix(strings.TrimPrefix(strings.TrimSpace(line), "$ "), "holdfast ")
				if !ok {
					continue
				}
				found++
				parser, err := newParser(&CLI{}, kong.Exit(func(int) {}))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := parser.Parse(words(args)); err != nil {
					t.Errorf("%s:%d: holdfast %s: %v", page.Path, b.Line, args, err)
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d commands found: the check has lost its way", found)
	}
}

// TestDocs_Blocks looks at every block of code of README.md and docs: definitions are
// read as apply reads them, JSON and programs are parsed, commands are run by
// TestDocs_Run. What is none of these has a comment before it that says why.
func TestDocs_Blocks(t *testing.T) {
	t.Parallel()
	kinds, left := map[string]int{}, map[string]int{}
	for _, page := range docPages(t) {
		for _, b := range page.Blocks {
			if b.NotRun != "" {
				left[b.NotRun]++
				continue
			}
			kinds[b.Lang]++
			switch b.Lang {
			case "sh", "console", mdtest.Hidden: // TestDocs_Run
			case "go": // TestDocs_GoBlocks
			case "sql": // TestDocs_Queries
			case "yaml":
				if _, err := spec.Parse(page.Path, []byte(b.Text)); err != nil {
					t.Errorf("%s:%d: as a definition: %v", page.Path, b.Line, err)
				}
			case "json":
				if !json.Valid([]byte(b.Text)) {
					t.Errorf("%s:%d is no JSON", page.Path, b.Line)
				}
			case "python":
				interpreted(t, page.Path, b, "python3", "-c", "import ast,sys; ast.parse(sys.stdin.read())")
			case "js":
				interpreted(t, page.Path, b, "node", "--check", "-")
			case "mermaid":
				drawn(t, page.Path, b)
			case "usage":
				if filepath.Base(page.Path) != filepath.Base(cliDoc) || !strings.HasPrefix(b.Text, "holdfast ") {
					t.Errorf("%s:%d: patterns of commands are for docs/cli.md", page.Path, b.Line)
				}
			default:
				t.Errorf("%s:%d is a block of %q, which no test runs: say what it is, or why it is not run with <!-- not run: WHY --> before it", page.Path, b.Line, b.Lang)
			}
		}
	}
	total := 0
	for reason, n := range left {
		total += n
		t.Logf("not run, %d: %s", n, reason)
	}
	t.Logf("blocks %v; %d are not run", kinds, total)
	if kinds["sh"]+kinds["console"] < 35 || kinds["yaml"] < 25 || kinds["json"] < 100 {
		t.Errorf("only %v: the check has lost its way", kinds)
	}
}

// interpreted has an interpreter read a program, where there is one.
func interpreted(t *testing.T, page string, b mdtest.Block, name string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Logf("%s:%d is not read: there is no %s", page, b.Line, name)
		return
	}
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stdin = strings.NewReader(b.Text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s:%d: %s: %v\n%s", page, b.Line, name, err, out)
	}
}

var (
	diagram = regexp.MustCompile(`^(flowchart (LR|TD)|sequenceDiagram|stateDiagram-v2)$`)
	// drawing is a line of a diagram: an edge, a node, a note or a group.
	drawing = regexp.MustCompile(`^(\[\*\]|[\w&+ ]+)([\[({>].*[\])}])?( *(--?>>?|<-->|---|--?x|-\.->|==>).*)?(: .*)?$|^(subgraph|participant|Note|loop|alt|else|end|actor|state)\b.*$`)
)

// drawn holds a Mermaid diagram to the few forms that the documents use.
func drawn(t *testing.T, page string, b mdtest.Block) {
	t.Helper()
	for i, line := range strings.Split(strings.TrimSpace(b.Text), "\n") {
		line = strings.TrimSpace(line)
		if i == 0 && !diagram.MatchString(line) || i > 0 && line != "" && !drawing.MatchString(line) {
			t.Errorf("%s:%d: %q is no line of a diagram", page, b.Line+i, line)
		}
	}
}

// words splits a line as a shell would, as far as documents need it: quotes, and
// nothing behind a comment, a pipe or a redirection.
func words(line string) (all []string) {
	var word strings.Builder
	var quote rune
	inWord := false
	end := func() {
		if inWord {
			all = append(all, word.String())
		}
		word.Reset()
		inWord = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, inWord = r, true
		case quote == 0 && strings.ContainsRune("#|>;&", r) && !inWord:
			return all
		case quote == 0 && r == ' ':
			end()
		default:
			inWord = true
			word.WriteRune(r)
		}
	}
	end()
	return all
}
