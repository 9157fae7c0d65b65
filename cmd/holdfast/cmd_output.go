package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// Output chooses between a table for people and JSON for programs.
type Output struct {
	JSON bool `name:"json" env:"-" help:"Print JSON in the shape of the HTTP API."`
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func printJSONLine(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table prints aligned columns. Every cell is cleaned: what a model or another
// server wrote must not steer the terminal of the person who decides.
func table(w io.Writer, head []string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(head, "\t"))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, c := range row {
			if cells[i] = clean(c); cells[i] == "" {
				cells[i] = "-"
			}
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}

// details prints "name: value" lines and leaves out empty values. A value with
// line breaks is indented below its name.
func details(w io.Writer, pairs ...string) error {
	width := 0
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			width = max(width, len(pairs[i]))
		}
	}
	var b bytes.Buffer
	for i := 0; i < len(pairs); i += 2 {
		name, value := pairs[i], strings.TrimRight(pairs[i+1], "\n")
		switch {
		case value == "":
		case strings.Contains(value, "\n"):
			fmt.Fprintf(&b, "%s:\n", name)
			for line := range strings.SplitSeq(value, "\n") {
				fmt.Fprintf(&b, "  %s\n", clean(line))
			}
		default:
			fmt.Fprintf(&b, "%-*s %s\n", width+1, name+":", clean(value))
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// clean makes control characters and invisible direction marks visible.
func clean(s string) string {
	if strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			b.WriteByte(' ')
		case hidden(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func hidden(r rune) bool {
	const joiner = '\u200d' // holds emoji together
	return !unicode.IsPrint(r) && r != joiner
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

func pairs(labels map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, k+"="+labels[k])
	}
	return strings.Join(out, ",")
}

// pretty indents JSON and keeps every digit.
func pretty(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return string(raw)
	}
	return b.String()
}

// short is JSON on one line, cut to n characters.
func short(raw json.RawMessage, n int) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return ""
	}
	return cut(b.String(), n)
}

func cut(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// readJSON reads a flag that is JSON, @file or @- for standard input.
func readJSON(flag, value string) (json.RawMessage, error) {
	if value == "" {
		return nil, nil
	}
	text, err := readText(flag, value)
	if err != nil {
		return nil, err
	}
	var v json.RawMessage
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return nil, usage(fmt.Errorf("%s is not JSON: %w; write it in single quotes, or @file", flag, err))
	}
	return v, nil
}
