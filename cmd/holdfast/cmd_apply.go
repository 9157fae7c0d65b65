package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// ApplyCmd stores definitions.
type ApplyCmd struct {
	Remote
	Output
	File  []string `short:"f" required:"" sep:"none" env:"-" placeholder:"DIR|FILE" help:"Folder (every .yaml and .yml below it), file, or - for standard input; repeat for more."`
	Check bool     `env:"-" help:"Only read the files and report what is wrong with them; store nothing and need no server."`
}

// Help implements kong.HelpProvider.
func (*ApplyCmd) Help() string {
	return `Stores all of the definitions or, when one of them is wrong, none. Each error
names file, line and column. A run keeps the version that it began with; a new
version is used by the runs that start after it. Repeating it changes nothing.

  holdfast apply -f examples/competitor-monitor
  holdfast apply -f agents/ -f tools/refund.yaml
  holdfast apply -f . --check
  generate | holdfast apply -f -

--json prints [{"kind", "name", "namespace", "digest", "version", "changed", "warnings"}].
` + exitHelp
}

// Run implements the command.
func (c *ApplyCmd) Run(ctx context.Context, k *kong.Context) error {
	docs, err := readDefinitions(c.File)
	if err != nil {
		return err
	}
	files := make([]spec.File, 0, len(docs))
	for _, d := range docs {
		files = append(files, spec.File{Name: d.File, Text: []byte(d.Text)})
	}
	parsed, err := spec.ParseAll(files)
	if err != nil {
		return fmt.Errorf("nothing was stored; correct these places and apply again:\n%w", err)
	}
	if len(parsed) == 0 {
		return fmt.Errorf("no definitions in %s; a definition begins with \"apiVersion: holdfast/v1\"", strings.Join(c.File, ", "))
	}
	if c.Check {
		return c.checked(k.Stdout, parsed)
	}
	api, err := c.client()
	if err != nil {
		return err
	}
	applied, err := api.Apply(ctx, docs)
	if err != nil {
		return advise(err, "")
	}
	if c.JSON {
		return printJSON(k.Stdout, applied)
	}
	rows := make([][]string, 0, len(applied))
	for _, a := range applied {
		what := "unchanged"
		switch {
		case a.Changed && a.Version == 1:
			what = "created"
		case a.Changed:
			what = "changed"
		}
		rows = append(rows, []string{a.Kind + "/" + a.Name, what, fmt.Sprintf("version %d", a.Version), a.Digest.Short(), a.Namespace})
	}
	for _, a := range applied {
		showWarnings(k.Stderr, a.Warnings)
	}
	return table(k.Stdout, []string{"DEFINITION", "RESULT", "VERSION", "DIGEST", "NAMESPACE"}, rows)
}

func (c *ApplyCmd) checked(w io.Writer, parsed []spec.Document) error {
	if c.JSON {
		out := make([]client.Applied, 0, len(parsed))
		for i, d := range parsed {
			out = append(out, client.Applied{Kind: d.Kind, Name: d.Name, Namespace: d.Namespace, Digest: d.Digest, Warnings: warnings(parsed[i : i+1])})
		}
		return printJSON(w, out)
	}
	rows := make([][]string, 0, len(parsed))
	for _, d := range parsed {
		rows = append(rows, []string{d.Kind + "/" + d.Name, fmt.Sprintf("%s:%d", d.File, d.Line), d.Digest.Short()})
	}
	if err := table(w, []string{"DEFINITION", "WHERE", "DIGEST"}, rows); err != nil {
		return err
	}
	showWarnings(w, warnings(parsed))
	_, err := fmt.Fprintln(w, "well formed; that the names in them exist is known to the server")
	return err
}

// readDefinitions reads files, and folders in the order of their names.
func readDefinitions(paths []string) ([]client.Document, error) {
	var docs []client.Document
	seen := map[string]bool{}
	add := func(name string, text []byte) {
		if clean := filepath.Clean(name); !seen[clean] {
			seen[clean] = true
			docs = append(docs, client.Document{File: name, Text: string(text)})
		}
	}
	for _, path := range paths {
		if path == "-" {
			text, err := io.ReadAll(os.Stdin)
			if err != nil {
				return nil, fmt.Errorf("standard input: %w", err)
			}
			add("stdin", text)
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, usage(err)
		}
		if !info.IsDir() {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, usage(err)
			}
			add(path, text)
			continue
		}
		names, err := definitionFiles(path)
		if err != nil {
			return nil, usage(err)
		}
		if len(names) == 0 {
			return nil, usage(fmt.Errorf("no .yaml or .yml file below %s", path))
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, usage(err)
			}
			add(name, text)
		}
	}
	return docs, nil
}

func definitionFiles(dir string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(d.Name(), ".") && path != dir
		switch {
		case d.IsDir() && hidden:
			return fs.SkipDir
		case d.IsDir() || hidden:
			return nil
		}
		if ext := strings.ToLower(filepath.Ext(path)); ext == ".yaml" || ext == ".yml" {
			names = append(names, path)
		}
		return nil
	})
	slices.SortFunc(names, cmp.Compare[string])
	return names, err
}
