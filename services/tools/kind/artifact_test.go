package kind_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/services/tools/kind"
)

func TestArtifactSave_WhatIsKept(t *testing.T) {
	t.Parallel()
	save := tool(t, "  builtin: artifact_save\n")
	for name, tc := range map[string]struct {
		args string
		want tools.Artifact
	}{
		"text":          {`{"name":"a.md","type":"text/markdown","text":"é"}`, tools.Artifact{Name: "a.md", ContentType: "text/markdown", Data: []byte("é")}},
		"text, no type": {`{"name":"a","text":"x"}`, tools.Artifact{Name: "a", ContentType: "text/plain; charset=utf-8", Data: []byte("x")}},
		"bytes":         {`{"name":"a.bin","base64":"AP8="}`, tools.Artifact{Name: "a.bin", ContentType: "application/octet-stream", Data: []byte{0, 255}}},
		"elsewhere":     {`{"uri":"s3://bucket/key","kind":"file","title":"The file"}`, tools.Artifact{URI: "s3://bucket/key", Kind: "file", Title: "The file"}},
		"most of it":    {`{"name":"a","base64":"` + base64.StdEncoding.EncodeToString(make([]byte, spec.MaxSavedBytes)) + `"}`, tools.Artifact{Name: "a", ContentType: "application/octet-stream", Data: make([]byte, spec.MaxSavedBytes)}},
	} {
		out := act(t, nil, save, tc.args)
		if out.Verdict != tools.Happened || len(out.Artifacts) != 1 {
			t.Errorf("%s: %v %+v", name, out.Verdict, out.Error)
			continue
		}
		got := out.Artifacts[0]
		if got.Name != tc.want.Name || got.ContentType != tc.want.ContentType || got.URI != tc.want.URI || got.Kind != tc.want.Kind || got.Title != tc.want.Title || string(got.Data) != string(tc.want.Data) {
			t.Errorf("%s: kept %.300v", name, got)
		}
		if !strings.Contains(string(out.Result), got.ID) {
			t.Errorf("%s: the model reads %s, the id is %s", name, out.Result, got.ID)
		}
	}
	for name, tc := range map[string]struct{ args, want string }{
		"nothing":                   {`{"name":"a"}`, "exactly one"},
		"two at once":               {`{"name":"a","text":"x","uri":"https://a.example"}`, "exactly one"},
		"no name":                   {`{"text":"x"}`, "name is required"},
		"no base64":                 {`{"name":"a","base64":"###"}`, "standard base64"},
		"no media type":             {`{"name":"a","type":"a b c","text":"x"}`, "media type"},
		"many characters":           {`{"name":"a","text":"` + strings.Repeat("é", spec.MaxSavedBytes-1) + `"}`, "at most 262144"},
		"too much":                  {`{"name":"a","text":"` + strings.Repeat("x", spec.MaxSavedBytes+1) + `"}`, "$.text"},
		"a script":                  {`{"uri":"JavaScript:alert(1)"}`, "elsewhere"},
		"data":                      {`{"uri":"data:text/html,x"}`, "elsewhere"},
		"a password":                {`{"uri":"https://a:hunter2@b.example/"}`, "user or password"},
		"no address":                {`{"uri":"report"}`, "not an address"},
		"an argument it has not":    {`{"name":"a","text":"x","path":"/etc"}`, "path"},
		"a number for the contents": {`{"name":"a","text":1}`, "$.text"},
	} {
		out := act(t, nil, save, tc.args)
		if out.Verdict != tools.Refused || len(out.Artifacts) != 0 || !strings.Contains(out.Error.Message, tc.want) || strings.Contains(out.Error.Message, "hunter2") {
			t.Errorf("%s: %v %.300v", name, out.Verdict, out.Error)
		}
	}
}

// artifactsOfRun plays the store of one run.
type artifactsOfRun map[string]tools.Artifact

func (k artifactsOfRun) Artifacts(_ context.Context, f tools.ArtifactFilter) (out []tools.Artifact, err error) {
	for i := range f.Limit {
		out = append(out, tools.Artifact{ID: fmt.Sprintf("a-%d", i)})
	}
	return out, nil
}

func (k artifactsOfRun) RunArtifact(_ context.Context, _ string, _ events.RunID, id, _ string) (tools.Artifact, error) {
	switch a, ok := k[id]; {
	case id == "down":
		return tools.Artifact{}, errors.New("dial postgres://user:hunter2@host")
	case id == "forgotten":
		return tools.Artifact{}, tools.ErrForgotten
	case ok:
		return a, nil
	}
	return tools.Artifact{}, tools.ErrNotFound
}

func TestArtifactRead_Parts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 50<<10) // 100 KiB
	ascii := strings.Repeat("x", 2000) + "é"
	store := artifactsOfRun{
		"long":   {ID: "long", ContentType: "text/plain", Data: []byte(long)},
		"late":   {ID: "late", ContentType: "text/plain", Data: []byte(ascii)},
		"latin":  {ID: "latin", ContentType: "text/plain; charset=iso-8859-1", Data: []byte("caf\xe9")},
		"image":  {ID: "image", ContentType: "image/png", Data: []byte("\x89PNG\r\n\x1a\n\x00")},
		"away":   {ID: "away", URI: "https://a.example/1", Kind: "draft"},
		"broken": {ID: "broken", ContentType: "text/plain; charset=utf-8", Data: []byte("ab\xffcdefghijklmnopqrstuvwxyz")},
	}
	var k tools.Kind
	for _, found := range kind.All(kind.Config{Artifacts: store}) {
		if found.Runs(tool(t, "  builtin: artifact_read\n")) {
			k = found
		}
	}
	read := func(def *spec.Tool, args string) (part struct {
		Text, Note, URI string
		Offset, Next    int
		Artifacts       []struct{ Artifact string }
	}, out tools.Outcome) {
		out = k.Act(t.Context(), tools.Request{Tool: def, Class: tools.ClassRead, Args: json.RawMessage(args), Namespace: "default", RunID: events.NewRunID()})
		checkOutcome(t, out)
		if out.Verdict == tools.Happened {
			if err := json.Unmarshal(out.Result, &part); err != nil {
				t.Fatal(err)
			}
		}
		return part, out
	}
	def := tool(t, "  builtin: artifact_read\n")
	var whole strings.Builder
	parts := 0
	for offset := 0; ; parts++ {
		p, _ := read(def, fmt.Sprintf(`{"id":"long","offset":%d,"length":30001}`, offset))
		if len(p.Text) > 30001 || p.Offset != offset || parts > 5 {
			t.Fatalf("part %d from %d has %d bytes, goes on at %d", parts, offset, len(p.Text), p.Next)
		}
		whole.WriteString(p.Text)
		if offset = p.Next; offset == 0 {
			break
		}
	}
	if whole.String() != long {
		t.Errorf("%d parts have %d bytes of %d", parts, whole.Len(), len(long))
	}
	if p, _ := read(def, `{"id":"long"}`); len(p.Text) != 64<<10 || p.Next != 64<<10 || p.Note == "" {
		t.Errorf("without a range %d bytes, next %d", len(p.Text), p.Next)
	}
	if p, _ := read(tool(t, "  builtin: artifact_read\n  maxOutput: 1KiB\n"), `{"id":"long","length":5000}`); len(p.Text) != 1<<10 {
		t.Errorf("with maxOutput %d bytes", len(p.Text))
	}
	for args, want := range map[string]string{
		`{"id":"long","offset":1,"length":2}`:   "é", // begins inside a character
		`{"id":"long","offset":0,"length":1}`:   "é", // never nothing
		`{"id":"late","offset":2000}`:           "é", // not taken for another charset
		`{"id":"latin"}`:                        "café",
		`{"id":"broken"}`:                       "ab\uFFFDcdefghijklmnopqrstuvwxyz",
		`{"id":"late","offset":90071992547409}`: "",
		`{"id":"image"}`:                        "",
		`{"id":"away","offset":3}`:              "",
	} {
		if p, out := read(def, args); out.Verdict != tools.Happened || p.Text != want || want == "" && p.Note == "" {
			t.Errorf("%s: %q (%s), want %q", args, p.Text, p.Note, want)
		}
	}
	if p, _ := read(def, `{}`); len(p.Artifacts) != 50 || p.Note == "" {
		t.Errorf("the list has %d and says %q", len(p.Artifacts), p.Note)
	}
	for args, want := range map[string]string{
		`{"id":"none"}`: "no_artifact", `{"id":"forgotten"}`: "forgotten", `{"id":"a","name":"b"}`: "invalid_arguments", `{"offset":-1}`: "invalid_arguments",
		`{"id":"long","offset":900719925474099300000}`: "invalid_arguments", `{"path":"/"}`: "invalid_arguments",
	} {
		if _, out := read(def, args); out.Verdict != tools.Refused || out.Error.Code != want {
			t.Errorf("%s: %v %+v, want %s", args, out.Verdict, out.Error, want)
		}
	}
	if _, out := read(def, `{"id":"down"}`); out.Verdict != tools.NotSent || strings.Contains(out.Error.Message, "hunter2") {
		t.Errorf("a store that is away: %v %+v", out.Verdict, out.Error)
	}
}
