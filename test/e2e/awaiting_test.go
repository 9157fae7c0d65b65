package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// awaitingDefinitions are an agent whose tool's results are posted later.
const awaitingDefinitions = `apiVersion: holdfast/v1
kind: Agent
metadata: {name: painter}
spec: {model: scripted, instructions: "SHOP EDITION", tools: [render]}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: render}
spec:
  description: Renders.
  input: {type: object, properties: {job: {type: string}}, required: [job]}
  effect: write
  http:
    method: POST
    url: "SHOP/acts/render"
    headers: {X-Callback: "${callback.url}"}
    callback: {within: 1h, failed: "!body.ok", result: {pages: "${body.pages}"}}
`

// killToolsAwaiting kills the worker when the other side has accepted and has not
// posted yet: nobody holds the call, the result comes by the edge to whoever
// works then, once, and the act is not repeated.
func killToolsAwaiting(t *testing.T, d *deployment) {
	text := strings.NewReplacer("SHOP", d.out.shopURL, "EDITION", "first edition").Replace(awaitingDefinitions)
	if _, err := d.admin.Apply(t.Context(), []client.Document{{File: "awaiting.yaml", Text: text}}); err != nil {
		t.Fatal(err)
	}
	j := job{Job: "kill-tools-awaiting", Do: []string{"render"}}
	s, err := d.operator.Start(t.Context(), client.StartRequest{Agent: "painter", Input: j.input(), IdempotencyKey: j.Job})
	if err != nil {
		t.Fatal(err)
	}
	awaited := func() int {
		return d.count(t, `SELECT count(*) FROM tools.v_awaited WHERE run_id = $1`, string(s.RunID))
	}
	until(t, "the result to be awaited", func() bool { return awaited() == 1 })
	d.out.mu.Lock()
	address := d.out.later[j.Job]
	d.out.mu.Unlock()
	post := func(body string) int {
		t.Helper()
		res, err := http.Post(address, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	if !strings.HasPrefix(address, d.edge+"/v1/callbacks/") {
		t.Fatalf("the shop was given %q", address)
	}
	before := d.process("tools")
	before.kill(t)
	if got := post(`{"ok":true,"pages":9007199254740993}`); got != http.StatusServiceUnavailable && got != http.StatusBadGateway {
		t.Errorf("without a tools service the post is answered with %d, want that it comes again", got)
	}
	d.start("tools")
	if awaited() != 1 {
		t.Error("it is no longer awaited after the kill")
	}
	for _, tc := range []struct {
		body string
		want bool
	}{{`{"ok":true,"pages":9007199254740993}`, true}, {`{"ok":true,"pages":9007199254740993}`, true}, {`{"ok":true,"pages":3}`, false}} {
		if got := post(tc.body); got < 300 != tc.want {
			t.Errorf("the post of %s is answered with %d, taken: want %v", tc.body, got, tc.want)
		}
	}
	journal := d.finished(t, s.RunID, j, 0)
	results := 0
	for _, e := range journal {
		var c events.ToolCompleted
		if e.Kind != events.FactToolCompleted {
			continue
		}
		if err := json.Unmarshal(e.Data, &c); err != nil {
			t.Fatal(err)
		}
		if results++; c.Status != events.CallSucceeded || string(c.Result) != `{"pages":9007199254740993}` || c.Epoch != 1 {
			t.Errorf("the run reads %s %s of epoch %d", c.Status, c.Result, c.Epoch)
		}
	}
	if results != 1 || len(d.out.of("render", j.Job)) != 1 {
		t.Errorf("%d results of %d requests, want one of one", results, len(d.out.of("render", j.Job)))
	}
	token := address[strings.LastIndexByte(address, '/')+1:]
	for _, p := range []*process{before, d.process("tools"), d.process("edge")} {
		b, err := os.ReadFile(p.log)
		if err != nil || strings.Contains(string(b), token) {
			t.Errorf("%s logs the address of a callback (%v)", p.name, err)
		}
	}
}
