package console_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

func definition(kind, name, digest, body string) console.Definition {
	return console.Definition{Ref: events.Ref{Kind: kind, Name: name, Digest: events.Digest(digest)}, Body: json.RawMessage(body)}
}

// Every difference of both versions is there once, digit for digit, and the text
// shows the lines that differ.
func TestChanges(t *testing.T) {
	t.Parallel()
	before := []console.Definition{
		definition("agent", "a", "sha256:1", `{"spec":{"instructions":"one\ntwo\nthree","budget":{"tokens":12345678901234567890},"tools":["look"]}}`),
		definition("model", "m", "sha256:2", `{"spec":{}}`),
		definition("tool", "look", "sha256:3", `{}`),
	}
	after := []console.Definition{
		definition("agent", "a", "sha256:4", `{"spec":{"instructions":"one\n2\nthree","budget":{"tokens":12345678901234567891},"tools":["see"],"output":{"type":"object"}}}`),
		definition("model", "m", "sha256:2", `{"spec":{}}`),
		definition("tool", "see", "sha256:5", `{}`),
	}
	changes, more := console.Changes(before, after)
	var got []string
	for _, c := range changes {
		got = append(got, strings.Join([]string{c.Kind, c.Name, c.Op, c.Path, string(c.Before), string(c.After)}, "|"))
	}
	want := []string{
		`agent|a|changed||"sha256:1"|"sha256:4"`,
		`agent|a|changed|spec.budget.tokens|12345678901234567890|12345678901234567891`,
		`agent|a|changed|spec.instructions|"one\ntwo\nthree"|"one\n2\nthree"`,
		`agent|a|added|spec.output||{"type":"object"}`,
		`agent|a|changed|spec.tools|["look"]|["see"]`,
		`tool|see|added|||"sha256:5"`,
		`tool|look|removed||"sha256:3"|`,
	}
	if diff := cmp.Diff(want, got); diff != "" || more {
		t.Errorf("changes (-want +got), more=%t:\n%s", more, diff)
	}
	text := console.ChangeText(changes, true)
	for _, line := range []string{"agent a: sha256:1 -> sha256:4\n", "  spec.instructions\n    - two\n    + 2\n", "tool see: added (sha256:5)\n", "tool look: removed (sha256:3)\n", "and more\n"} {
		if !strings.Contains(text, line) {
			t.Errorf("the text has no %q:\n%s", line, text)
		}
	}
	if strings.Contains(text, "three") {
		t.Errorf("a line that is the same is shown:\n%s", text)
	}
}

// What somebody wrote into a definition is bounded.
func TestChanges_AreBounded(t *testing.T) {
	t.Parallel()
	var members []string
	for i := range 1000 {
		members = append(members, `"k`+strings.Repeat("x", i%7)+string(rune('a'+i%26))+strings.Repeat("y", i)+`":1`)
	}
	long, _ := json.Marshal(strings.Repeat("é", 60_000))
	changes, more := console.Changes([]console.Definition{definition("agent", "a", "1", `{"text":`+string(long)+`}`)}, []console.Definition{definition("agent", "a", "2", `{"text":"","m":{`+strings.Join(members, ",")+`}}`),
		definition("tool", "b", "2", `{}`)})
	if more || len(changes) != 4 {
		t.Errorf("%d changes", len(changes))
	}
	for _, c := range changes {
		if len(c.Before) > 17<<10 || len(c.After) > 17<<10 || c.Before != nil && !json.Valid(c.Before) || c.After != nil && !json.Valid(c.After) {
			t.Errorf("%s has %d and %d bytes", c.Path, len(c.Before), len(c.After))
		}
	}
	if text := console.ChangeText(changes, more); len(text) > 20<<10 {
		t.Errorf("the text has %d bytes", len(text))
	}
	_, more = console.Changes([]console.Definition{definition("agent", "a", "1", `{}`)}, []console.Definition{definition("agent", "a", "2", `{`+strings.Join(members, ",")+`}`)})
	if !more {
		t.Error("a thousand changes are not said to be cut")
	}
}
