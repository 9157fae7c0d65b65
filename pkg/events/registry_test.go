package events_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
)

//go:generate go test -run ^TestEventsDoc$ . -args -update

var update = flag.Bool("update", false, "rewrite generated files")

// golden is one file of testdata/messages. A released one is never edited: a
// new meaning is a new version of the type.
type golden struct {
	Subject string            `json:"subject"`
	Headers map[string]string `json:"headers"`
	Data    json.RawMessage   `json:"data"`
}

// goldens returns the files of a folder that are examples of name, its own
// first: <name>.json, then <name>.<variant>.json.
func goldens(t *testing.T, folder, name string) (files []string) {
	t.Helper()
	files, err := filepath.Glob("testdata/" + folder + "/" + name + ".*json")
	if err != nil {
		t.Fatal(err)
	}
	first := "testdata/" + folder + "/" + name + ".json"
	if !slices.Contains(files, first) {
		t.Fatalf("there is no example %s", first)
	}
	slices.SortFunc(files, func(a, b string) int { return len(a) - len(b) })
	return files
}

func readMessage(t *testing.T, file string) golden {
	t.Helper()
	var g golden
	strict(t, file, readFile(t, file), &g)
	return g
}

func readFile(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// strict decodes and refuses members that v does not have.
func strict(t *testing.T, file string, text []byte, v any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// roundTrip decodes data as v and wants the same meaning back.
func roundTrip(t *testing.T, file string, data json.RawMessage, v any) {
	t.Helper()
	strict(t, file, data, v)
	again, err := events.Marshal(reflect.ValueOf(v).Elem().Interface())
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if diff := cmp.Diff(canonical(t, file, data), canonical(t, file, again)); diff != "" {
		t.Errorf("%s comes back otherwise (-golden +got):\n%s", file, diff)
	}
}

func canonical(t *testing.T, file string, data json.RawMessage) string {
	t.Helper()
	c, err := events.Canonical(data)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return string(c)
}

func TestMessages_RoundTrip(t *testing.T) {
	t.Parallel()
	for _, m := range events.Types() {
		for _, file := range goldens(t, "messages", m.Type) {
			g := readMessage(t, file)
			headers := map[string][]string{}
			for k, v := range g.Headers {
				headers[k] = []string{v}
			}
			decoded, err := events.DecodeHeaders(g.Subject, headers, g.Data)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			if decoded.Type != m.Type {
				t.Errorf("%s: ce-type %s", file, decoded.Type)
			}
			if diff := cmp.Diff(headers, events.EncodeHeaders(decoded)); diff != "" {
				t.Errorf("%s: headers come back otherwise (-golden +got):\n%s", file, diff)
			}
			if !slices.ContainsFunc(m.Subjects, func(p string) bool { return fits(p, g.Subject) }) {
				t.Errorf("%s: subject %s fits none of %v", file, g.Subject, m.Subjects)
			}
			if prefix, _, _ := strings.Cut(m.ID, ":"); strings.Contains(m.ID, ":") && !strings.Contains(m.ID, " or ") &&
				!strings.HasPrefix(prefix, "<") && !strings.HasPrefix(decoded.ID, prefix+":") {
				t.Errorf("%s: ce-id %s has not the form %s", file, decoded.ID, m.ID)
			}
			roundTrip(t, file, g.Data, m.New())
		}
	}
}

// fits compares a subject with a pattern token by token.
func fits(pattern, subject string) bool {
	want, got := strings.Split(pattern, "."), strings.Split(subject, ".")
	return slices.EqualFunc(want, got, func(w, g string) bool { return w == g || strings.HasPrefix(w, "<") && events.ValidToken(g) })
}

func TestFacts_RoundTrip(t *testing.T) {
	t.Parallel()
	for _, f := range events.Facts() {
		for _, file := range goldens(t, "facts", f.Kind) {
			roundTrip(t, file, readFile(t, file), f.New())
		}
	}
}

// TestGoldens_NameEveryField wants each field of each body in some example, so
// that a new field is shown, and a renamed one fails.
func TestGoldens_NameEveryField(t *testing.T) {
	t.Parallel()
	seen := map[reflect.Type]map[string]bool{}
	for _, m := range events.Types() {
		for _, file := range goldens(t, "messages", m.Type) {
			note(seen, reflect.TypeOf(m.New()).Elem(), readMessage(t, file).Data)
		}
	}
	for _, f := range events.Facts() {
		for _, file := range goldens(t, "facts", f.Kind) {
			note(seen, reflect.TypeOf(f.New()).Elem(), readFile(t, file))
		}
	}
	for typ, members := range seen {
		for _, f := range fieldsOf(typ) {
			if f.owner == typ && !members[f.name] {
				t.Errorf("no example has %s of %s", f.name, typ.Name())
			}
		}
	}
	if len(seen) < len(events.Types()) {
		t.Errorf("only %d kinds of body were looked at", len(seen))
	}
}

type field struct {
	owner reflect.Type // the struct that declares it
	name  string
	typ   reflect.Type
}

// fieldsOf lists the members of a struct as JSON has them, those of embedded
// structs too.
func fieldsOf(typ reflect.Type) (all []field) {
	for f := range typ.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			all = append(all, fieldsOf(f.Type)...)
			continue
		}
		all = append(all, field{typ, name, f.Type})
	}
	return all
}

// note records which members of typ the example has, at every depth.
func note(seen map[reflect.Type]map[string]bool, typ reflect.Type, data json.RawMessage) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch {
	case typ.Kind() == reflect.Slice && typ != reflect.TypeFor[json.RawMessage]():
		var items []json.RawMessage
		if json.Unmarshal(data, &items) == nil {
			for _, item := range items {
				note(seen, typ.Elem(), item)
			}
		}
	case typ.Kind() == reflect.Struct && typ != reflect.TypeFor[time.Time]():
		var members map[string]json.RawMessage
		if json.Unmarshal(data, &members) != nil {
			return
		}
		for _, f := range fieldsOf(typ) {
			if seen[f.owner] == nil {
				seen[f.owner] = map[string]bool{}
			}
			if value, ok := members[f.name]; ok {
				seen[f.owner][f.name] = true
				note(seen, f.typ, value)
			}
		}
	}
}

// TestRegistry_IsComplete compares the registry with the constants in the
// source, and with the files of examples.
func TestRegistry_IsComplete(t *testing.T) {
	t.Parallel()
	var types, kinds []string
	for _, m := range events.Types() {
		types = append(types, m.Type)
	}
	for _, f := range events.Facts() {
		kinds = append(kinds, f.Kind)
	}
	for folder, names := range map[string][]string{"messages": types, "facts": kinds} {
		if sorted := slices.Sorted(slices.Values(names)); len(slices.Compact(sorted)) != len(names) {
			t.Errorf("%s: a name is listed twice: %v", folder, names)
		}
		files, err := filepath.Glob("testdata/" + folder + "/*.json")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !slices.ContainsFunc(names, func(n string) bool { return slices.Contains(goldens(t, folder, n), file) }) {
				t.Errorf("%s is no example of anything in the registry", file)
			}
		}
	}
	if diff := cmp.Diff(sorted(constants(t, "bodies.go", "Type")), sorted(types)); diff != "" {
		t.Errorf("Types differs from the constants Type... (-constants +registry):\n%s", diff)
	}
	if diff := cmp.Diff(sorted(constants(t, "facts.go", "Fact")), sorted(kinds)); diff != "" {
		t.Errorf("Facts differs from the constants Fact... (-constants +registry):\n%s", diff)
	}
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// constants returns the values of a file's string constants with a prefix.
func constants(t *testing.T, file, prefix string) (values []string) {
	t.Helper()
	for _, decl := range parse(t, file).Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, s := range gen.Specs {
			v := s.(*ast.ValueSpec)
			if !strings.HasPrefix(v.Names[0].Name, prefix) {
				continue
			}
			value, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
	}
	return values
}

func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, readFile(t, file), parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// typeDocs returns the doc comment of every type in the body files.
func typeDocs(t *testing.T) map[string]string {
	t.Helper()
	docs := map[string]string{}
	for _, file := range []string{"bodies.go", "facts.go", "known.go", "waits.go"} {
		for _, decl := range parse(t, file).Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.TYPE {
				continue
			}
			for _, s := range gen.Specs {
				docs[s.(*ast.TypeSpec).Name.Name] = strings.Join(strings.Fields(gen.Doc.Text()), " ")
			}
		}
	}
	return docs
}

const eventsDoc = "../../docs/events.md"

// TestEventsDoc keeps docs/events.md in step with the registry and the
// examples. Rewrite it with go generate ./pkg/events.
func TestEventsDoc(t *testing.T) {
	t.Parallel()
	docs := typeDocs(t)
	var b strings.Builder
	b.WriteString(`# Messages and events

<!-- Generated from pkg/events by "go generate ./pkg/events". Do not edit. -->

Services meet only in these messages. Each has CloudEvents 1.0 attributes as NATS headers (` + "`ce-id`, `ce-source`, `ce-type`, `ce-time`," + `
` + "`ce-subject`, `ce-namespace`" + `; values percent-encoded), ` + "`traceparent`" + ` where there is a trace, and a JSON body. ` + "`ce-id`" + ` is the logical id: the same
at every repeat, and what a receiver records as the cause. ` + "`Nats-Msg-Id`" + ` is the same or, at a repeat, the id with ` + "`:n<k>`" + ` behind it; it trims
repeats and means nothing. The types are in ` + "`pkg/events/bodies.go` and `pkg/events/facts.go`" + `, the subjects in ` + "`pkg/events/subjects.go`" + `.

| type | stream | subject | ce-id | from | to |
|---|---|---|---|---|---|
`)
	for _, m := range events.Types() {
		subjects := make([]string, len(m.Subjects))
		for i, s := range m.Subjects {
			subjects[i] = "`" + s + "`"
		}
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | %s | %s | %s | %s |\n", m.Type, strings.ReplaceAll(m.Type, ".", ""), m.Stream,
			strings.Join(subjects, ", "), strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(m.ID), m.From, m.To)
	}
	b.WriteString("\n## Bodies\n")
	for _, m := range events.Types() {
		name := reflect.TypeOf(m.New()).Elem().Name()
		fmt.Fprintf(&b, "\n### %s\n\n`events.%s`. %s\n", m.Type, name, docs[name])
		for _, file := range goldens(t, "messages", m.Type) {
			g := readMessage(t, file)
			fmt.Fprintf(&b, "\n`%s`\n\n```json\n%s\n```\n", g.Subject, indent(t, g.Data))
		}
	}
	b.WriteString(`
## Run events

A run's journal is its list of facts. Each row is one event on ` + "`hf.event.run.<run id>`" + ` (above), in ` + "`GET /v1/runs/{id}/journal`" + ` and in the
event stream of ` + "`GET /v1/runs/{id}/events`" + `, where the id is the row's ` + "`seq`" + `. These are the kinds and what ` + "`data`" + ` holds.
`)
	for _, f := range events.Facts() {
		name := reflect.TypeOf(f.New()).Elem().Name()
		fmt.Fprintf(&b, "\n### %s\n\n%s `events.%s`. %s\n", f.Kind, f.Doc, name, docs[name])
		for _, file := range goldens(t, "facts", f.Kind) {
			fmt.Fprintf(&b, "\n```json\n%s\n```\n", indent(t, readFile(t, file)))
		}
	}
	want := b.String()
	if *update {
		if err := os.WriteFile(eventsDoc, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, string(readFile(t, eventsDoc))); diff != "" {
		t.Errorf("docs/events.md is stale, run go generate ./pkg/events (-want +got):\n%s", diff)
	}
}

func indent(t *testing.T, data json.RawMessage) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(data), "", "  "); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
