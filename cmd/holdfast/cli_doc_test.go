package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
)

const cliDoc = "../../docs/cli.md"

// TestCLIDoc keeps docs/cli.md in step with the commands. Rewrite it with
// go generate ./cmd/holdfast.
func TestCLIDoc(t *testing.T) {
	t.Parallel()
	parser, err := newParser(&CLI{}, kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(`# Command line

<!-- Generated from the commands by "go generate ./cmd/holdfast". Do not edit. -->

Commands that speak to a running server take ` + "`--server`, `--token`, `--token-file` and `--namespace`" + `, before or after the subcommand; their environment variables are
` + "`HOLDFAST_SERVER`, `HOLDFAST_TOKEN`, `HOLDFAST_TOKEN_FILE` and `HOLDFAST_NAMESPACE`" + `. The settings of ` + "`serve`, `dev` and `config`" + ` are in [config.md](config.md).

## For scripts

- **Exit codes**: 0 done; 1 failed; 2 wrong usage, nothing was sent; 3 not found; 4 not allowed; 5 conflict, somebody decided first; 6 server not available, safe to repeat; 7 the run is still running.
- **` + "`--json`" + `**: what a command shows, as the HTTP API says it: one document, or one line for each thing that a command follows. Fields are added, never renamed or taken away, within a major version; unknown ones are
  to be passed over. Ids, digests and amounts are strings or exact numbers: read them with a parser that keeps digits. Errors go to standard error, as text.
`)
	commands := 0
	for _, g := range []string{"work", "run"} {
		title := map[string]string{"work": "Working with a server", "run": "Running it"}[g]
		fmt.Fprintf(&b, "\n## %s\n", title)
		for _, n := range parser.Model.Children {
			if n.Group != nil && n.Group.Key == g {
				commands += writeCommand(&b, n, nil)
			}
		}
	}
	if commands < 60 {
		t.Errorf("only %d commands: some are missing", commands)
	}
	want := b.String()
	if *update {
		if err := os.WriteFile(cliDoc, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(cliDoc)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/cli.md is stale, run go generate ./cmd/holdfast (-want +got):\n%s", diff)
	}
}

// writeCommand writes a command, or each one below it, and says how many.
func writeCommand(b *strings.Builder, n *kong.Node, flags []*kong.Flag) (count int) {
	if n.Hidden {
		return 0
	}
	flags = append(slices.Clone(flags), n.Flags...)
	leaf := true
	for _, c := range n.Children {
		if c.Type == kong.CommandNode {
			leaf = false
			count += writeCommand(b, c, flags)
		}
	}
	if !leaf {
		return count
	}
	line := "holdfast " + n.Path()
	for _, f := range flags {
		if f.Required {
			line += " " + f.Summary()
		}
	}
	for _, p := range n.Positional {
		line += " " + p.Summary()
	}
	fmt.Fprintf(b, "\n### %s\n\n%s\n", n.Path(), cell(n.Help))
	fmt.Fprintf(b, "\n```usage\n%s\n```\n", line)
	var rows []string
	for _, p := range n.Positional {
		rows = append(rows, fmt.Sprintf("| `%s` | %s |\n", p.Name, cell(p.Help)))
	}
	if n.Name != "serve" && n.Name != "dev" && n.Name != "config" {
		for _, f := range flags {
			if f.Hidden || f.Name == "help" || f.Group != nil && f.Group.Key == "server" {
				continue
			}
			rows = append(rows, fmt.Sprintf("| `--%s` | %s |\n", f.Name, cell(f.Help)))
		}
	}
	if len(rows) > 0 {
		fmt.Fprintf(b, "\n| argument | what |\n|---|---|\n%s", strings.Join(rows, ""))
	}
	return count + 1
}

// cell makes a text fit into a table.
func cell(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", "\\|")
}
