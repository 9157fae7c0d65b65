package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const apiDoc = "../../docs/reference/api.md"

type schema struct {
	Ref                  string            `json:"$ref"`
	Type                 any               `json:"type"`
	Description          string            `json:"description"`
	Properties           map[string]schema `json:"properties"`
	Required             []string          `json:"required"`
	Items                *schema           `json:"items"`
	Enum                 []any             `json:"enum"`
	Default              any               `json:"default"`
	Minimum              *json.Number      `json:"minimum"`
	Maximum              *json.Number      `json:"maximum"`
	MaxLength            *json.Number      `json:"maxLength"`
	AdditionalProperties any               `json:"additionalProperties"`
}

type content map[string]struct{ Schema schema }

type endpoint struct {
	Summary, Description string
	Role                 string `json:"x-holdfast-role"`
	Parameters           []struct {
		Name, In, Description string
		Required              bool
		Schema                schema
	}
	RequestBody *struct {
		Description string
		Content     content
	}
	Responses map[string]struct {
		Description string
		Content     content
		Headers     map[string]any
	}
}

// TestAPIDoc keeps docs/reference/api.md in step with the doors: it is their OpenAPI
// document in words. Rewrite it with go generate ./cmd/holdfast.
func TestAPIDoc(t *testing.T) {
	t.Parallel()
	text, err := describe(emptyDoors(nil))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths      map[string]map[string]endpoint
		Components struct{ Schemas map[string]schema }
	}
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(`# HTTP API

<!-- Generated from the doors by "go generate ./cmd/holdfast". Do not edit. -->

Everything is on one address; ` + "`GET /openapi.json`" + ` is this page for programs (OpenAPI 3.1). A request carries ` + "`Authorization: Bearer TOKEN`" + `; on a development server, from the
same machine, it needs none. The **role** is the least one that may: viewer, approver, operator or admin. ` + "`Holdfast-Namespace`" + ` names the namespace where a token has a choice. Lists come in
pages: ` + "`limit`, and `cursor`" + ` with the ` + "`next_cursor`" + ` of the answer before. An error is ` + "`application/problem+json`" + ` with ` + "`status`, `code` and `detail`" + `: [errors.md](errors.md). Members are
added to answers within a major version, never renamed or taken away: pass over what you do not know. Numbers that need every digit are exact: read them with a parser that keeps digits.

`)
	paths := slices.Sorted(maps.Keys(doc.Paths))
	methods := []string{"get", "post", "put", "patch", "delete"}
	b.WriteString("| method | path | role | what |\n|---|---|---|---|\n")
	n := 0
	for _, p := range paths {
		for _, m := range methods {
			op, ok := doc.Paths[p][m]
			if !ok {
				continue
			}
			n++
			fmt.Fprintf(&b, "| %s | [`%s`](#%s) | %s | %s |\n", strings.ToUpper(m), p, apiAnchor(m, p), roleOf(op), cell(op.Summary))
		}
	}
	used := map[string]bool{}
	for _, p := range paths {
		for _, m := range methods {
			op, ok := doc.Paths[p][m]
			if !ok {
				continue
			}
			fmt.Fprintf(&b, "\n## %s %s\n\n%s. Role: %s.\n", strings.ToUpper(m), p, strings.TrimSuffix(cell(op.Summary), "."), roleOf(op))
			if d := cell(op.Description); d != "" && d != cell(op.Summary) {
				fmt.Fprintf(&b, "%s\n", d)
			}
			if len(op.Parameters) > 0 {
				b.WriteString("\n| parameter | in | value | what |\n|---|---|---|---|\n")
				for _, x := range op.Parameters {
					fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", x.Name, x.In, valueOf(x.Schema, used), cell(x.Description))
				}
			}
			if op.RequestBody != nil {
				fmt.Fprintf(&b, "\nBody: %s.\n", contentOf(op.RequestBody.Content, used, op.RequestBody.Description))
			}
			b.WriteString("\n| answer | is |\n|---|---|\n")
			for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
				r := op.Responses[status]
				if status == "default" {
					status = "else"
				}
				fmt.Fprintf(&b, "| %s | %s |\n", status, contentOf(r.Content, used, r.Description))
			}
		}
	}
	b.WriteString("\n# Bodies\n")
	for written := map[string]bool{}; len(written) < len(used); {
		for _, name := range slices.Sorted(maps.Keys(used)) {
			if written[name] {
				continue
			}
			written[name] = true
			s := doc.Components.Schemas[name]
			fmt.Fprintf(&b, "\n## %s\n", name)
			if d := cell(s.Description); d != "" {
				fmt.Fprintf(&b, "\n%s\n", d)
			}
			if len(s.Properties) == 0 {
				fmt.Fprintf(&b, "\n%s\n", valueOf(schema{Type: s.Type, Items: s.Items, Enum: s.Enum, AdditionalProperties: s.AdditionalProperties}, used))
				continue
			}
			b.WriteString("\n| member | value | what |\n|---|---|---|\n")
			for _, member := range slices.Sorted(maps.Keys(s.Properties)) {
				if member == "$schema" {
					continue
				}
				always := ""
				if slices.Contains(s.Required, member) {
					always = ", always"
				}
				fmt.Fprintf(&b, "| `%s` | %s%s | %s |\n", member, valueOf(s.Properties[member], used), always, cell(s.Properties[member].Description))
			}
		}
	}
	if n < 60 || len(used) < 60 {
		t.Errorf("only %d endpoints and %d bodies: some are missing", n, len(used))
	}
	generated(t, apiDoc, "./cmd/holdfast", b.String())
}

// generated compares a page with what it has to be, or writes it.
func generated(t *testing.T, path, by, want string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is stale; run \"go generate %s\" (-want +got):\n%s", strings.TrimPrefix(path, "../../"), by, diff)
	}
}

func roleOf(op endpoint) string {
	if op.Role == "" {
		return "none"
	}
	return op.Role
}

// apiAnchor is the name of an endpoint's heading.
func apiAnchor(method, path string) string {
	return method + "-" + strings.NewReplacer("/", "", "{", "", "}", "", ".", "", "$", "").Replace(path)
}

func contentOf(c content, used map[string]bool, words string) string {
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(c)) {
		text := valueOf(c[kind].Schema, used)
		if kind != "application/json" {
			text = "`" + kind + "`: " + text
		}
		all = append(all, text)
	}
	text := strings.Join(all, " or ")
	switch words = strings.TrimSuffix(cell(words), "."); {
	case text == "":
		return words
	case words == "" || words == "OK":
		return text
	}
	return words + ": " + text
}

// valueOf says in a few words what a schema takes.
func valueOf(s schema, used map[string]bool) string {
	if s.Ref != "" {
		name := strings.TrimPrefix(s.Ref, "#/components/schemas/")
		used[name] = true
		return "[" + name + "](#" + strings.ToLower(strings.ReplaceAll(name, ".", "")) + ")"
	}
	kind := ""
	switch k := s.Type.(type) {
	case string:
		kind = k
	case []any: // ["array", "null"]
		kind = fmt.Sprint(k[0])
	}
	switch {
	case kind == "array" && s.Items != nil:
		return "list of " + valueOf(*s.Items, used)
	case len(s.Enum) > 0:
		var all []string
		for _, v := range s.Enum {
			all = append(all, fmt.Sprintf("`%v`", v))
		}
		return strings.Join(all, ", ")
	}
	if kind == "object" && len(s.Properties) > 0 {
		var all []string
		for _, member := range slices.Sorted(maps.Keys(s.Properties)) {
			if slices.Contains(s.Required, member) {
				all = append(all, "`"+member+"` (always)")
			} else {
				all = append(all, "`"+member+"`")
			}
		}
		return "object with " + strings.Join(all, ", ")
	}
	text := map[string]string{"string": "text", "integer": "number", "number": "number", "boolean": "true or false", "object": "object", "": "any value"}[kind]
	if s.Minimum != nil && s.Maximum != nil {
		text += fmt.Sprintf(", %s to %s", *s.Minimum, *s.Maximum)
	} else if s.Maximum != nil {
		text += fmt.Sprintf(", at most %s", *s.Maximum)
	}
	if s.MaxLength != nil {
		text += fmt.Sprintf(", at most %s characters", *s.MaxLength)
	}
	if s.Default != nil {
		text += fmt.Sprintf(", default `%v`", s.Default)
	}
	return text
}
