package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/console/httpapi"
)

type migrateAnswer struct {
	RunID     events.RunID     `json:"run_id"`
	CommandID string           `json:"command_id"`
	DryRun    bool             `json:"dry_run"`
	From      events.Digest    `json:"from"`
	To        events.Digest    `json:"to"`
	Movable   bool             `json:"movable"`
	Problem   *events.Problem  `json:"problem"`
	Waits     string           `json:"waits"`
	Changes   []httpapi.Change `json:"changes"`
	More      bool             `json:"more_changes"`
	Diff      string           `json:"diff"`
}

const pricing = `
apiVersion: holdfast/v1
kind: Model
metadata: {name: main}
spec: {provider: anthropic, model: m1, apiKey: {env: KEY}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: look}
spec: {description: looks, effect: read, input: {type: object}, http: {method: GET, url: "http://127.0.0.1/look"}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: pricing}
spec: {model: main, instructions: work, tools: [look]}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: other}
spec: {model: main, instructions: work}
`

// store puts definitions into the catalog, and returns their digests by name.
func (r *rig) store(text string) map[string]events.Ref {
	r.t.Helper()
	docs, err := spec.Parse("t.yaml", []byte(text))
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string]events.Ref{}
	for _, d := range docs {
		r.exec(`INSERT INTO catalog.versions (namespace, kind, name, digest, body, created_by) VALUES ('default', $1, $2, $3, $4, 't') ON CONFLICT DO NOTHING`, d.Kind, d.Name, string(d.Digest), string(d.Body))
		r.exec(`INSERT INTO catalog.current (namespace, kind, name, digest, version, updated_by) VALUES ('default', $1, $2, $3, 1, 't') ON CONFLICT (namespace, kind, name) DO UPDATE SET digest = excluded.digest`, d.Kind, d.Name, string(d.Digest))
		out[d.Name] = events.Ref{Kind: d.Kind, Name: d.Name, Digest: d.Digest}
	}
	return out
}

// executing is a run that pinned those definitions and was answered over an API.
func (r *rig) executing(refs map[string]events.Ref) events.RunID {
	r.t.Helper()
	id := events.NewRunID()
	r.take("default", id, "pricing", `{}`)
	first, _ := events.Marshal(events.RunStarted{Ref: refs["pricing"], Model: &events.Ref{Kind: "model", Name: "main", Digest: refs["main"].Digest}, Tools: []events.Ref{refs["look"]}, Input: json.RawMessage(`{"id":1}`)})
	r.exec(`UPDATE runner.runs SET digest = $2, waiting = 'tool look (1 open)', status = 'waiting', input = '{"id":1}' WHERE run_id = $1`, string(id), string(refs["pricing"].Digest))
	r.exec(`UPDATE runner.journal SET data = $2 WHERE run_id = $1`, string(id), string(first))
	return id
}

func (r *rig) row(id events.RunID, kind string, body any) {
	r.t.Helper()
	data, err := events.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	r.exec(`WITH run AS (UPDATE runner.runs SET seq = seq + 1 WHERE run_id = $1 RETURNING seq)
		INSERT INTO runner.journal (run_id, seq, kind, status, cause, inbound, worker, at, data) SELECT $1, seq, $2, 'waiting', 'x' || seq, false, 'w', clock_timestamp(), $3 FROM run`, string(id), kind, string(data))
}

// A dry run shows what would change and orders nothing; an order is kept once for its
// key, also when the run has moved meanwhile, and reaches the runner with the digest.
func TestMigrate_ShowsAndOrders(t *testing.T) {
	t.Parallel()
	r := setup(t)
	old := r.store(pricing)
	id := r.executing(old)
	path := "/v1/runs/" + string(id) + "/migrate"
	same := get[migrateAnswer](r, "POST", path, authn.Operator, `{"dry_run":true}`)
	if same.Movable || same.Problem == nil || same.Problem.Code != events.MigrateUnchanged || len(same.Changes) != 0 {
		t.Errorf("to the same version: %+v", same)
	}
	now := r.store(strings.NewReplacer("instructions: work, tools: [look]", "instructions: work faster, tools: [look]", "description: looks", "description: looks twice", "model: m1", "model: m2").Replace(pricing))
	dry := get[migrateAnswer](r, "POST", path, authn.Operator, `{"dry_run":true}`)
	if !dry.Movable || dry.CommandID != "" || dry.From != old["pricing"].Digest || dry.To != now["pricing"].Digest || dry.Waits != "tool look (1 open)" {
		t.Errorf("a dry run answers %+v", dry)
	}
	for _, line := range []string{"    - work\n    + work faster\n", "tool look: sha256:", "    - looks\n    + looks twice\n", "    - m1\n    + m2\n"} {
		if !strings.Contains(dry.Diff, line) {
			t.Errorf("the diff has no %q:\n%s", line, dry.Diff)
		}
	}
	var n int
	if err := r.db.QueryRow(t.Context(), `SELECT count(*) FROM console.commands`).Scan(&n); err != nil || n != 0 {
		t.Errorf("a dry run kept %d commands (%v)", n, err)
	}
	done := get[migrateAnswer](r, "POST", path, authn.Operator, `{"reason":"new tool"}`, "Idempotency-Key", "k")
	var kind string
	var body events.MigrateRun
	var raw []byte
	if err := r.db.QueryRow(t.Context(), `SELECT kind, body FROM console.commands WHERE id = $1`, done.CommandID).Scan(&kind, &raw); err != nil || json.Unmarshal(raw, &body) != nil || kind != "migrate" ||
		body.To != now["pricing"].Digest || !body.Current || body.RunID != id || body.ID != done.CommandID || body.Reason != "new tool" {
		t.Errorf("the order is %s %s (%v)", kind, raw, err)
	}
	// It was carried out, the name means something else by now, and the answer was lost.
	r.row(id, events.FactMigrationOrdered, events.Migration{MigrateRun: body})
	r.row(id, events.FactMigrated, events.Migrated{Migration: events.Migration{MigrateRun: body, Pins: events.Pins{Ref: now["pricing"], Model: now["main"], Tools: []events.Ref{now["look"]}}}, From: old["pricing"], Providers: map[string]string{"main": "anthropic"}})
	r.exec(`UPDATE runner.runs SET digest = $2 WHERE run_id = $1`, string(id), string(now["pricing"].Digest))
	if again := get[migrateAnswer](r, "POST", path, authn.Operator, `{"reason":"new tool"}`, "Idempotency-Key", "k"); again.CommandID != done.CommandID {
		t.Errorf("the repeat is command %q, want %q", again.CommandID, done.CommandID)
	}
	run := get[map[string]any](r, "GET", "/v1/runs/"+string(id), authn.Viewer, "")
	moves, _ := json.Marshal(run["migrations"])
	if !strings.Contains(string(moves), `"state":"moved"`) || strings.Contains(string(moves), `"waiting"`) {
		t.Errorf("the run shows %s", moves)
	}
	if _, _, page := r.do("GET", "/ui/runs/"+string(id), doortest.Token(authn.Viewer), ""); !strings.Contains(page, "event 3: moved to "+string(body.To)) {
		t.Error("the page does not say that the run moved")
	}
	if status, _, _ := r.do("POST", path, doortest.Token(authn.Viewer), `{}`); status != http.StatusForbidden {
		t.Errorf("a viewer is answered %d", status)
	}
	// One order for many.
	second := r.executing(old)
	bulk := get[map[string]any](r, "POST", "/v1/runs/commands", authn.Operator, `{"command":"migrate","where":"agent == \"pricing\""}`, "Idempotency-Key", "b")
	if err := r.db.QueryRow(t.Context(), `SELECT count(*) FROM console.commands WHERE kind = 'migrate' AND run_id = $1 AND body->>'to' = $2`, string(second), string(now["pricing"].Digest)).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d orders for the second run (%v): %v", n, err, bulk)
	}
}

// Why a run cannot be moved is said at the door, by code, and nothing is kept.
func TestMigrate_IsRefusedAtTheDoor(t *testing.T) {
	t.Parallel()
	r := setup(t)
	old := r.store(pricing)
	answered := func(id events.RunID, a events.ModelAnswered) {
		a.StopReason, a.Text, a.ModelName, a.Raw = "end_turn", "hm", "main", "{}"
		r.row(id, events.FactModelAnswered, a)
	}
	for name, tc := range map[string]struct {
		next string // replaces old in the definitions
		with string
		to   string
		do   func(id events.RunID)
		want string
	}{
		"a run that has ended": {do: func(id events.RunID) { r.step(id, "completed", false) }, want: events.MigrateEnded},
		"one that is being ended": {do: func(id events.RunID) {
			r.exec(`UPDATE runner.runs SET status = 'cancelling' WHERE run_id = $1`, string(id))
		}, want: events.MigrateCancelling},
		"a flow":                     {do: func(id events.RunID) { r.exec(`UPDATE runner.runs SET kind = 'flow' WHERE run_id = $1`, string(id)) }, want: events.MigrateFlow},
		"another agent":              {to: string(old["other"].Digest), want: events.MigrateOther},
		"no such version":            {to: "sha256:" + strings.Repeat("0", 64), want: events.MigrateDefinition},
		"a tool that is not defined": {next: "tools: [look]", with: "tools: [look, gone]", want: events.MigrateDefinition},
		"an input that fits no more": {next: "tools: [look]", with: "tools: [look], input: {type: object, required: [night]}", want: events.MigrateInput},
		"no tools beside calls": {next: ", tools: [look]", with: "", want: events.MigrateNoTools, do: func(id events.RunID) {
			answered(id, events.ModelAnswered{Calls: []events.AskedCall{{CallID: "c", Tool: "look"}}})
		}},
		"another API":                {next: "provider: anthropic", with: "provider: openai-chat", want: events.MigrateModel, do: func(id events.RunID) { answered(id, events.ModelAnswered{}) }},
		"reasoning of another model": {next: "model: m1", with: "model: m2", want: events.MigrateModel, do: func(id events.RunID) { answered(id, events.ModelAnswered{Bound: true}) }},
	} {
		id := r.executing(old)
		if tc.do != nil {
			tc.do(id)
		}
		if tc.next != "" {
			r.store(strings.Replace(pricing, tc.next, tc.with, 1))
		}
		body := `{}`
		if tc.to != "" {
			body = `{"to":"` + tc.to + `"}`
		}
		status, _, raw := r.do("POST", "/v1/runs/"+string(id)+"/migrate", doortest.Token(authn.Operator), body)
		if status != http.StatusConflict || !strings.Contains(raw, `"code":"`+tc.want+`"`) {
			t.Errorf("%s: %d %s, want %s", name, status, raw, tc.want)
		}
		dry := get[migrateAnswer](r, "POST", "/v1/runs/"+string(id)+"/migrate", authn.Operator, strings.Replace(body, "{", `{"dry_run":true`+map[bool]string{true: ",", false: ""}[tc.to != ""], 1))
		if dry.Movable || dry.Problem == nil || dry.Problem.Code != tc.want {
			t.Errorf("%s: the dry run answers %+v", name, dry)
		}
		r.store(pricing)
	}
	var n int
	if err := r.db.QueryRow(t.Context(), `SELECT count(*) FROM console.commands`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d orders were kept (%v)", n, err)
	}
	if status, _, raw := r.do("POST", "/v1/runs/"+string(events.NewRunID())+"/migrate", doortest.Token(authn.Operator), `{}`); status != http.StatusNotFound {
		t.Errorf("an unknown run: %d %s", status, raw)
	}
	if status, _, raw := r.do("POST", "/v1/runs/"+string(events.NewRunID())+"/migrate", doortest.Token(authn.Operator), `{"to":"newest"}`); status != http.StatusUnprocessableEntity {
		t.Errorf("a target that is none: %d %s", status, raw)
	}
}
