package spec

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
)

var update = flag.Bool("update", false, "rewrite golden files")

// golden compares got with a file, or rewrites the file with -update.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// TestParse_Errors holds every error message to its golden file: the message is
// what an operator works with, so a change of one must be seen.
func TestParse_Errors(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/errors/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			docs, err := Parse(filepath.Base(file), text)
			if err == nil || docs != nil {
				t.Fatalf("Parse returned %d documents and error %v, want only an error", len(docs), err)
			}
			var out strings.Builder
			for _, p := range Problems(err) {
				if p.Line < 1 || p.Column < 1 || p.Line > strings.Count(string(text), "\n") {
					t.Errorf("place outside the file: %v", p)
				}
				if strings.Contains(p.Message, "sk-not") || strings.Contains(p.Message, "hunter2") || strings.Contains(p.Message, "whsec_") {
					t.Errorf("message repeats a secret: %v", p)
				}
				fmt.Fprintln(&out, p)
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".err", out.String())
		})
	}
}

func exampleFiles(t testing.TB) []File {
	t.Helper()
	paths, err := filepath.Glob("../../examples/*/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	var files []File
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, File{filepath.Base(p), text})
	}
	return files
}

// TestParse_DigestsStay pins the body and digest of a document of every kind.
// A digest that changes by accident would give every installation new versions
// of everything on its next apply.
func TestParse_DigestsStay(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/digests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := Parse("digests.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	var out strings.Builder
	for _, doc := range docs {
		kinds[doc.Kind] = true
		fmt.Fprintf(&out, "%s/%s/%s %s\n%s\n", doc.Namespace, doc.Kind, doc.Name, doc.Digest, doc.Body)
	}
	if len(kinds) != len(Kinds) {
		t.Errorf("digests.yaml has documents of kinds %v, want all of %v", names(kinds), Kinds)
	}
	golden(t, "testdata/digests.golden", out.String())
}

func TestParse_Example(t *testing.T) {
	t.Parallel()
	docs, err := ParseAll(exampleFiles(t))
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, doc := range docs {
		have[doc.Kind+"/"+doc.Name] = true
	}
	for _, doc := range docs {
		for _, ref := range doc.References() {
			if ref.Line < 1 || ref.Column < 1 {
				t.Errorf("%s %s: reference %+v has no place", doc.Kind, doc.Name, ref)
			}
			if !have[ref.Kind+"/"+ref.Name] {
				t.Errorf("%s %s: %s names the %s %q, which the example does not have", doc.Kind, doc.Name, ref.Field, ref.Kind, ref.Name)
			}
		}
	}
}

// checkStored asserts what every parsed document promises about its body.
func checkStored(t *testing.T, doc Document) {
	t.Helper()
	if want := events.DigestOf(doc.Body); doc.Digest != want {
		t.Errorf("%s %s: digest %s, want that of the body, %s", doc.Kind, doc.Name, doc.Digest, want)
	}
	if canonical, err := events.Canonical(doc.Body); err != nil || string(canonical) != string(doc.Body) {
		t.Errorf("%s %s: body is not canonical (%v): %s", doc.Kind, doc.Name, err, doc.Body)
	}
	again, err := Decode(doc.Body)
	if err != nil {
		t.Errorf("%s %s: body does not decode: %v\n%s", doc.Kind, doc.Name, err, doc.Body)
		return
	}
	if string(again.Body) != string(doc.Body) || again.Namespace != "" {
		t.Errorf("%s %s: decoded and encoded again gives another body (-want +got):\n%s", doc.Kind, doc.Name, cmp.Diff(string(doc.Body), string(again.Body)))
	}
}

func TestParse_BodyDecodesToItself(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/digests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := ParseAll(append(exampleFiles(t), File{"digests.yaml", text}))
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range docs {
		checkStored(t, doc)
	}
}

func TestParse_DigestDependsOn(t *testing.T) {
	t.Parallel()
	digest := func(text string) events.Digest {
		docs, err := Parse("x.yaml", []byte(text))
		if err != nil || len(docs) != 1 {
			t.Fatalf("%s: %v", text, err)
		}
		return docs[0].Digest
	}
	base := "apiVersion: holdfast/v1\nkind: Budget\nmetadata: {name: night}\nspec: {limit: 10}\n"
	same := map[string]string{
		"a namespace":           strings.Replace(base, "night}", "night, namespace: other}", 1),
		"comments and order":    "spec: {limit: 10} # ten\nmetadata:\n  name: \"night\"\nkind: Budget\napiVersion: holdfast/v1\n",
		"a default spelled out": strings.Replace(base, "10}", "10, unit: tokens, alertAt: [80, 100]}", 1),
		"CRLF and a BOM":        "\ufeff" + strings.ReplaceAll(base, "\n", "\r\n"),
	}
	for name, text := range same {
		if got, want := digest(text), digest(base); got != want {
			t.Errorf("%s changes the digest", name)
		}
	}
	other := map[string]string{
		"the name":  strings.Replace(base, "night", "day", 1),
		"the spec":  strings.Replace(base, "10", "11", 1),
		"the label": strings.Replace(base, "night}", "night, labels: {a: b}}", 1),
	}
	for name, text := range other {
		if digest(text) == digest(base) {
			t.Errorf("%s does not change the digest", name)
		}
	}
}

func TestParse_Limits(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		want string
	}{
		"a file that is too large":       {strings.Repeat("#", maxFileBytes+1), "at most 1048576"},
		"a document that is too large":   {"a: " + strings.Repeat("x", maxDocumentBytes), "at most 262144"},
		"too many documents":             {strings.Repeat("a: 1\n---\n", maxDocuments+1), "at most 1000"},
		"deep brackets":                  {"a: " + strings.Repeat("[", 100_000), "nested deeper than 100"},
		"deep dashes":                    {strings.Repeat("- ", 50_000) + "x", "nested deeper than 100"},
		"deep closed brackets":           {"a: " + strings.Repeat("[", 200) + strings.Repeat("]", 200), "nested deeper than 100"},
		"a billion laughs":               {laughs(), "more than 50000 values"},
		"a name list that is too long":   {agentWith("tools: [" + manyNames(101) + "]"), "spec.tools: has 101 items; at most 100"},
		"a text that is too long":        {agentWith("description: " + strings.Repeat("x", 5000)), "spec.description: has 5000 bytes; at most 4096"},
		"a schema that is too long":      {agentWith("input: {description: " + strings.Repeat("x", 70_000) + "}"), "spec.input: the schema has"},
		"a NUL character":                {agentWith(`description: "a\0b"`), "x.yaml:7:16: the text holds a NUL character"},
		"a control character":            {"a: \"x\x07\"\n", "control character U+0007"},
		"text that is not valid UTF-8":   {"a: \"x\xff\"\n", "not valid UTF-8"},
		"more problems than can be read": {"apiVersion: holdfast/v1\nkind: Flow\nmetadata: {name: x}\nspec: {steps: [" + strings.Repeat("{x: 1},", 90) + "]}", " more problems"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse("x.yaml", []byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				got := fmt.Sprint(err)
				t.Errorf("error %.300q, want one with %q", got, tc.want)
			}
			if n := len(Problems(err)); n > maxProblems+1 {
				t.Errorf("%d problems, want at most %d", n, maxProblems+1)
			}
		})
	}
}

func agentWith(line string) string {
	return "apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: a}\nspec:\n  model: m\n  instructions: i\n  " + line + "\n"
}

func manyNames(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "t%d, ", i)
	}
	return b.String()
}

func laughs() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	return b.String()
}

func TestParse_AnchorsAreFilledIn(t *testing.T) {
	t.Parallel()
	docs, err := Parse("x.yaml", []byte(`
apiVersion: holdfast/v1
kind: Tool
metadata: {name: t}
spec:
  description: !!str 5
  effect: read
  input: {type: object, properties: {a: &s {type: string}, b: *s}}
  http: {url: "https://example.com/"}
`))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"properties":{"a":{"type":"string"},"b":{"type":"string"}},"type":"object"}`; string(docs[0].Tool.Input.JSON()) != want {
		t.Errorf("input schema %s, want %s", docs[0].Tool.Input.JSON(), want)
	}
	if docs[0].Tool.Description != "5" {
		t.Errorf("description %q, want the text 5", docs[0].Tool.Description)
	}
}

func TestParseAll_FilesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	bad := []byte("x: 1\n---\ny: 1\n")
	good := []byte("apiVersion: holdfast/v1\nkind: Budget\nmetadata: {name: night}\nspec: {limit: 1}\n")
	docs, err := ParseAll([]File{{"z.yaml", bad}, {"ok.yaml", good}, {"a.yaml", bad}, {"again.yaml", good}})
	if docs != nil {
		t.Errorf("%d documents beside problems", len(docs))
	}
	var got []string
	for _, p := range Problems(err) {
		if place := fmt.Sprintf("%s:%d", p.File, p.Line); len(got) == 0 || got[len(got)-1] != place {
			got = append(got, place)
		}
	}
	if diff := cmp.Diff([]string{"z.yaml:1", "z.yaml:3", "a.yaml:1", "a.yaml:3", "again.yaml:3"}, got); diff != "" {
		t.Errorf("places of problems (-want +got):\n%s", diff)
	}
}

// TestDecode_RefusesUnknownField: an older process must not act on a version
// that holds rules it does not know.
func TestDecode_RefusesUnknownField(t *testing.T) {
	t.Parallel()
	docs, err := Parse("x.yaml", []byte("apiVersion: holdfast/v1\nkind: Budget\nmetadata: {name: night}\nspec: {limit: 10}\n"))
	if err != nil {
		t.Fatal(err)
	}
	body := strings.Replace(string(docs[0].Body), `"limit"`, `"frozen":true,"limit"`, 1)
	if _, err := DecodeBudget([]byte(body)); err == nil || !strings.Contains(err.Error(), "spec.frozen: unknown field") {
		t.Errorf("error %v, want one that names spec.frozen", err)
	}
	if _, err := DecodeAgent(docs[0].Body); err == nil || !strings.Contains(err.Error(), `it holds budget "night", want kind agent`) {
		t.Errorf("error %v, want one that names both kinds", err)
	}
	for _, bad := range []string{"", "null", "[]", "{", `{"a":1,"a":2}`} {
		if _, err := Decode([]byte(bad)); err == nil {
			t.Errorf("body %q decodes", bad)
		}
	}
}

func TestDecode_EveryKind(t *testing.T) {
	t.Parallel()
	docs, err := ParseAll(exampleFiles(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range docs {
		got := map[string]definition{}
		keep := func(kind string, d definition, err error) {
			if err == nil {
				got[kind] = d
			}
		}
		agent, err := DecodeAgent(doc.Body)
		keep(KindAgent, agent, err)
		flow, err := DecodeFlow(doc.Body)
		keep(KindFlow, flow, err)
		tool, err := DecodeTool(doc.Body)
		keep(KindTool, tool, err)
		model, err := DecodeModel(doc.Body)
		keep(KindModel, model, err)
		webhook, err := DecodeWebhook(doc.Body)
		keep(KindWebhook, webhook, err)
		schedule, err := DecodeSchedule(doc.Body)
		keep(KindSchedule, schedule, err)
		budget, err := DecodeBudget(doc.Body)
		keep(KindBudget, budget, err)
		if d := got[doc.Kind]; len(got) != 1 || d == nil || d.meta().Name != doc.Name {
			t.Errorf("%s %s decodes as %v", doc.Kind, doc.Name, names(got))
		}
	}
}

func FuzzParse(f *testing.F) {
	paths, err := filepath.Glob("testdata/*/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range append(paths, "testdata/digests.yaml") {
		text, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		for _, c := range split(string(text)) {
			f.Add([]byte(c.text))
		}
	}
	for _, file := range exampleFiles(f) {
		f.Add(file.Text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		stuck := time.AfterFunc(20*time.Second, func() { panic(fmt.Sprintf("Parse does not end: %q", text)) })
		defer stuck.Stop()
		docs, err := Parse("fuzz.yaml", text)
		if err != nil && docs != nil {
			t.Error("documents beside an error")
		}
		for _, p := range Problems(err) {
			if p.Message == "" || p.Line < 0 || p.Column < 0 || p.Line > strings.Count(string(text), "\n")+2 {
				t.Errorf("problem without place or message: %+v", p)
			}
		}
		for _, doc := range docs {
			checkStored(t, doc)
		}
	})
}
