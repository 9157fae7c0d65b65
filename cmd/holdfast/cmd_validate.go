package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// ValidateCmd checks definitions without a server.
type ValidateCmd struct {
	Output
	File    []string `short:"f" required:"" sep:"none" env:"-" placeholder:"DIR|FILE" help:"Folder (every .yaml and .yml below it), file, or - for standard input; repeat for more."`
	Partial bool     `env:"-" help:"Take it that definitions which the files name and do not hold are stored already."`
}

// Help implements kong.HelpProvider.
func (*ValidateCmd) Help() string {
	return `Reads what "apply" would store, and needs no server: spelling, types, schemas,
conditions, cron expressions, and that every name leads to a definition in these
files. Each problem names file, line and column.

  holdfast validate -f .
  holdfast validate -f tools/refund.yaml --partial

--json prints {"valid", "definitions": [{"kind", "name", "file", "line", "digest"}],
"problems": [{"file", "line", "column", "field", "message"}], "warnings": [...]}.
Warnings are about what is valid and may not be what was meant: a cron expression
that names a day of the month and one of the week, or a time that a clock change
of the coming year skips or repeats.

Exit codes: 0 valid, 1 not valid, 2 wrong usage.`
}

// validated is the answer of validate.
type validated struct {
	Valid       bool           `json:"valid"`
	Definitions []validDoc     `json:"definitions"`
	Problems    []client.Place `json:"problems"`
	Warnings    []client.Place `json:"warnings"`
}

type validDoc struct {
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	File      string `json:"file"`
	Line      int    `json:"line"`
	Digest    string `json:"digest"`
}

// Run implements the command.
func (c *ValidateCmd) Run(k *kong.Context) error {
	docs, err := readDefinitions(c.File)
	if err != nil {
		return err
	}
	files := make([]spec.File, 0, len(docs))
	for _, d := range docs {
		files = append(files, spec.File{Name: d.File, Text: []byte(d.Text)})
	}
	parsed, err := spec.ParseAll(files)
	problems := spec.Problems(err)
	if err == nil && !c.Partial {
		problems = append(dangling(parsed), spec.Unpriced(parsed, func(string, string) *spec.Document { return nil })...)
	}
	if err == nil && len(parsed) == 0 {
		problems = []*spec.Error{{Message: fmt.Sprintf("no definitions in %s; a definition begins with \"apiVersion: holdfast/v1\"", strings.Join(c.File, ", "))}}
	}
	if c.JSON {
		err = printValidated(k.Stdout, parsed, problems)
	} else {
		err = showValidated(k.Stdout, parsed, problems)
	}
	if err == nil && len(problems) > 0 {
		err = fmt.Errorf("not valid: %d %s", len(problems), plural(len(problems), "problem"))
	}
	return err
}

// dangling lists the names that lead to no definition of the set.
func dangling(docs []spec.Document) []*spec.Error {
	known := map[string][]string{} // by namespace and kind
	for _, d := range docs {
		at := d.Namespace + "/" + d.Kind
		known[at] = append(known[at], d.Name)
	}
	var problems []*spec.Error
	for _, d := range docs {
		for _, ref := range d.References() {
			names := known[d.Namespace+"/"+ref.Kind]
			if slices.Contains(names, ref.Name) {
				continue
			}
			message := fmt.Sprintf("%s %q is not in these files", ref.Kind, ref.Name)
			if near := spec.Nearest(ref.Name, names); near != "" {
				message += fmt.Sprintf("; did you mean %q?", near)
			}
			problems = append(problems, &spec.Error{File: d.File, Line: ref.Line, Column: ref.Column, Field: ref.Field, Message: message})
		}
	}
	return problems
}

func printValidated(w io.Writer, docs []spec.Document, problems []*spec.Error) error {
	out := validated{Valid: len(problems) == 0, Definitions: []validDoc{}, Problems: []client.Place{}, Warnings: warnings(docs)}
	for _, d := range docs {
		out.Definitions = append(out.Definitions, validDoc{d.Kind, d.Name, d.Namespace, d.File, d.Line, string(d.Digest)})
	}
	for _, p := range problems {
		out.Problems = append(out.Problems, placeOf(p))
	}
	return printJSON(w, out)
}

func placeOf(e *spec.Error) client.Place {
	return client.Place{Field: e.Field, Message: e.Message, File: e.File, Line: e.Line, Column: e.Column}
}

// warnings lists what is valid and may not be what was meant.
func warnings(docs []spec.Document) []client.Place {
	all := []client.Place{}
	for i := range docs {
		for _, w := range docs[i].Warnings(time.Now()) {
			all = append(all, placeOf(w))
		}
	}
	return all
}

func showWarnings(w io.Writer, places []client.Place) {
	for _, p := range places {
		fmt.Fprintln(w, clean("warning: "+p.String()))
	}
}

func showValidated(w io.Writer, docs []spec.Document, problems []*spec.Error) error {
	for _, p := range problems {
		fmt.Fprintln(w, clean(p.Error()))
	}
	if len(problems) > 0 {
		return nil
	}
	rows := make([][]string, 0, len(docs))
	for _, d := range docs {
		rows = append(rows, []string{d.Kind + "/" + d.Name, fmt.Sprintf("%s:%d", d.File, d.Line), d.Digest.Short()})
	}
	if err := table(w, []string{"DEFINITION", "WHERE", "DIGEST"}, rows); err != nil {
		return err
	}
	showWarnings(w, warnings(docs))
	_, err := fmt.Fprintf(w, "valid: %d %s\n", len(docs), plural(len(docs), "definition"))
	return err
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}
