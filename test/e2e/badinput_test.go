package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/client"
)

func applyNamesThePlace(t *testing.T, d *deployment) {
	file := filepath.Join(t.TempDir(), "agent.yaml")
	const text = `apiVersion: holdfast/v1
kind: Agent
metadata: {name: broken}
spec:
  model: scripted
  instrutions: "you"
  budget:
      toolCals: 3
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, bad, code := d.cli(t, "apply", "-f", file)
	if code == 0 {
		t.Fatalf("a broken definition is applied: %s", out)
	}
	for _, want := range []string{`agent\.yaml:6:3: .*instrutions.*instructions`, `agent\.yaml:8:7: .*toolCals.*toolCalls`} {
		if !regexp.MustCompile(want).MatchString(bad) {
			t.Errorf("no match of %s in:\n%s", want, bad)
		}
	}
	// The server says the same to a program that asks it directly.
	_, err := d.once(t).Apply(t.Context(), []client.Document{{File: "agent.yaml", Text: text}})
	if client.StatusOf(err) != http.StatusUnprocessableEntity || !strings.Contains(fmt.Sprint(err), "agent.yaml:6:3: ") {
		t.Errorf("the server says: %v", err)
	}
	if n := d.count(t, `SELECT count(*) FROM catalog.v_current WHERE name = 'broken'`); n != 0 {
		t.Error("the broken definition is stored")
	}
}

func badInputIsRefused(t *testing.T, d *deployment) {
	large := `{"input":{"job":"large","do":[],"x":"` + strings.Repeat("x", 26<<20) + `"}}`
	huge := `{"documents":[{"file":"x","text":"` + strings.Repeat("#", 20<<20) + `"}]}`
	for name, tc := range map[string]struct {
		path, body string
		status     int
		says       string // in the problem
	}{
		"an agent that is not there":   {"/v1/agents/clark/runs", `{"input":{}}`, http.StatusNotFound, "clark"},
		"a flow that is not there":     {"/v1/flows/clerk/runs", `{"input":{}}`, http.StatusNotFound, "clerk"},
		"a schedule that is not there": {"/v1/schedules/weekly/trigger", ``, http.StatusNotFound, "weekly"},
		"a webhook that is not there":  {"/hooks/nobody", `{}`, http.StatusNotFound, "nobody"},
		"input of another type":        {"/v1/agents/clerk/runs", `{"input":{"job":7,"do":[]}}`, http.StatusUnprocessableEntity, "input.job"},
		"input deep inside":            {"/v1/agents/clerk/runs", `{"input":{"job":"x","do":["read","fly"]}}`, http.StatusUnprocessableEntity, "input.do[1]"},
		"input with more than it may":  {"/v1/agents/clerk/runs", `{"input":{"job":"x","do":[],"why":1}}`, http.StatusUnprocessableEntity, "why"},
		"no JSON":                      {"/v1/agents/clerk/runs", `{"input":`, http.StatusBadRequest, ""},
		"a body over the limit":        {"/v1/agents/clerk/runs", large, http.StatusRequestEntityTooLarge, ""},
		"a delivery over the limit":    {"/hooks/jobs", large, http.StatusRequestEntityTooLarge, ""},
		"definitions over the limit":   {"/v1/resources", huge, http.StatusRequestEntityTooLarge, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := d.send(t, http.MethodPost, tc.path, d.token, []byte(tc.body), nil)
			if a.status != tc.status || !strings.Contains(string(a.body), tc.says) {
				t.Fatalf("%d %.500s, want %d naming %q", a.status, a.body, tc.status, tc.says)
			}
			var p client.Error
			a.into(t, &p)
			if p.Code == "" || p.Detail == "" || p.RequestID == "" || !strings.HasPrefix(a.header.Get("Content-Type"), "application/problem+json") {
				t.Errorf("the problem %s (%s) lacks something", a.body, a.header.Get("Content-Type"))
			}
		})
	}
}
