package spec

import (
	"encoding/json"
	"strings"
	"testing"
)

func previewed(t *testing.T, line string) (*Tool, error) {
	t.Helper()
	docs, err := Parse("tool.yaml", []byte("apiVersion: holdfast/v1\nkind: Tool\nmetadata: {name: propose_price}\nspec:\n  description: proposes\n"+
		"  input: {type: object}\n  effect: write\n  http: {url: 'https://shop.example.com/', method: POST}\n  preview: "+line+"\n"))
	if err != nil {
		return nil, err
	}
	return docs[0].Tool, nil
}

func TestPreview(t *testing.T) {
	t.Parallel()
	tool, err := previewed(t, `"${args.shop}: ${args.old} → ${args.new}"`)
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		`{"shop":"Shop A","old":24.90,"new":22.90}`:       "Shop A: 24.90 → 22.90",
		`{"shop":"Shop A","old":"24.90","new":"22.90"}`:   "Shop A: 24.90 → 22.90",
		`{"shop":"","old":9007199254740993,"new":1e2}`:    ": 9007199254740993 → 1e2",
		`{"shop":"${args.old}","old":true,"new":0.10}`:    "${args.old}: true → 0.10", // a value is no template
		`{"shop":"a","old":1}`:                            "error",
		`{"shop":"a","old":1,"new":{"a":1}}`:              "error",
		`{"shop":"a","old":1,"new":null}`:                 "error",
		`{"old":1,"new":2,"shop":"` + long(5000) + `"}`:   "error",
		`{"shop":"` + long(4000) + `","old":"1","new":2}`: long(4000) + ": 1 → 2",
	} {
		got, err := tool.PreviewOf(json.RawMessage(args))
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%.80s: %q, %v; want %q", args, got, err, want)
		}
	}
	if got, err := (&Tool{}).PreviewOf(json.RawMessage(`{}`)); got != "" || err != nil {
		t.Errorf("without a template: %q, %v", got, err)
	}
	for line, want := range map[string]string{
		`"${run.id}"`:      "run",
		`"${args.a"`:       "}",
		`[1]`:              "preview",
		`{a: "${args.b}"}`: "preview",
		long(1001):         "1000",
	} {
		if _, err := previewed(t, line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("preview: %.40s: %v; want an error with %q", line, err, want)
		}
	}
}

func long(n int) string { return strings.Repeat("x", n) }
