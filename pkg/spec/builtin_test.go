package spec

import (
	"strings"
	"testing"
)

// A document that only names a built-in is whole; what it leaves out is in its
// body, so the same text and the body alone are the same tool.
func TestBuiltin_TheNameIsAWholeDocument(t *testing.T) {
	t.Parallel()
	for _, b := range Builtins() {
		if b.Name == BuiltinStartRun {
			continue // names what may be started as well
		}
		docs, err := Parse("t.yaml", []byte("apiVersion: holdfast/v1\nkind: Tool\nmetadata: {name: x}\nspec: {builtin: "+b.Name+"}\n"))
		if err != nil {
			t.Errorf("%s: %v", b.Name, err)
			continue
		}
		got := docs[0].Tool
		if got.Description != b.Description || got.Effect != b.Effect || string(got.Input.JSON()) != string(b.Input().JSON()) {
			t.Errorf("%s became %+v", b.Name, got)
		}
		stored, err := Decode(docs[0].Body)
		if err != nil || stored.Digest != docs[0].Digest {
			t.Errorf("%s: its stored body: %v", b.Name, err)
		}
		if (got.AnsweredByRunner() != nil) != (b.By == ByRunner) {
			t.Errorf("%s is answered by %s", b.Name, b.By)
		}
		if !ValidName(strings.ReplaceAll(b.Name, "_", "-")) || b.By != ByRunner && b.By != ByTools {
			t.Errorf("%+v", b)
		}
	}
}

// What a document gives stays as it is: a narrower schema, other words, and
// members that the built-in's schema leaves open.
func TestBuiltin_WhatIsGivenStays(t *testing.T) {
	t.Parallel()
	docs, err := Parse("t.yaml", []byte(`
apiVersion: holdfast/v1
kind: Tool
metadata: {name: plan}
spec:
  builtin: plan
  description: Your plan.
  effect: idempotent
  input: {type: object, properties: {items: {type: array, maxItems: 5}}, required: [items], additionalProperties: false}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: fetch}
spec: {builtin: fetch_page, input: {type: object, properties: {url: {type: string, format: uri}, why: {type: string}}}, timeout: 5s, approval: always}
`))
	if err != nil {
		t.Fatal(err)
	}
	if p := docs[0].Tool; p.Description != "Your plan." || len(p.Input.Validate([]byte(`{"update":[]}`))) == 0 {
		t.Errorf("plan became %+v", p)
	}
	if f := docs[1].Tool; len(f.Input.Validate([]byte(`{"url":"not an address"}`))) == 0 || f.Approval.Mode != ApprovalAlways {
		t.Errorf("fetch became %+v", f)
	}
}
