package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

const waitsDefinitions = `apiVersion: holdfast/v1
kind: Tool
metadata: {name: nap}
spec: {builtin: sleep_until}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: delegate}
spec: {builtin: start_run, startRun: {agents: [deputy]}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: enquire}
spec: {builtin: ask_person, askPerson: {to: the owner, answer: {type: object, required: [price]}}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: deputy}
spec: {model: scripted, instructions: "SHOP deputy"}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: waiter}
spec: {model: scripted, instructions: "SHOP waiter", tools: [nap, delegate, enquire]}
`

// argsOf are the arguments of a job's calls: the job's name, but for built-ins.
func argsOf(tool string, j job) any {
	switch tool {
	case "nap":
		return map[string]string{"for": "1s"}
	case "delegate":
		return map[string]any{"input": job{Job: j.Job + "-child", Do: []string{}}}
	case "enquire":
		return map[string]string{"question": "What does " + j.Job + " cost?"}
	}
	return map[string]string{"job": j.Job}
}

// A run asks a person, whose answer arrives digit for digit, starts another run
// and reads its end, and sleeps.
func runAsksStartsAndSleeps(t *testing.T, d *deployment) {
	text := strings.ReplaceAll(waitsDefinitions, "SHOP", d.out.shopURL)
	if _, err := d.admin.Apply(t.Context(), []client.Document{{File: "waits.yaml", Text: text}}); err != nil {
		t.Fatal(err)
	}
	j := job{Job: "asks-around", Do: []string{"enquire", "delegate", "nap"}}
	s, err := d.operator.Start(t.Context(), client.StartRequest{Agent: "waiter", Input: j.input(), IdempotencyKey: j.Job})
	if err != nil {
		t.Fatal(err)
	}
	asked := d.approval(t, s.RunID, events.ApprovalQuestion)
	if asked.Question == nil || asked.Question.Text != "What does asks-around cost?" || asked.Question.To != "the owner" {
		t.Errorf("asked %+v", asked.Question)
	}
	why, err := d.operator.Why(t.Context(), s.RunID)
	if err != nil || !strings.HasPrefix(why.Sentence, "waiting for a person's answer to enquire since ") {
		t.Errorf("%q, %v", why.Sentence, err)
	}
	if _, bad, code := d.cli(t, "approvals", "answer", string(asked.ApprovalID), "--text", "cheap"); code == 0 || !strings.Contains(bad, "schema") {
		t.Errorf("an answer that does not fit: exit %d, %s", code, bad)
	}
	const exact = `{"price":90071992547409930.10}`
	if out, bad, code := d.cli(t, "approvals", "answer", string(asked.ApprovalID), "--result", exact); code != 0 {
		t.Errorf("exit %d: %s%s", code, out, bad)
	}
	r := d.runOf(t, s.RunID, events.StatusCompleted)
	if want := "asks-around is done, 0 calls failed, by the waiter"; !strings.Contains(string(r.Output), want) {
		t.Errorf("output %s, want %q", r.Output, want)
	}
	var kinds []string
	for _, e := range d.journal(t, s.RunID) {
		kinds = append(kinds, e.Kind)
		var said events.ApprovalDecision
		if e.Kind == events.FactApprovalDecided && (json.Unmarshal(e.Data, &said) != nil || string(said.Result) != exact || said.By == "") {
			t.Errorf("the run was told %s", e.Data)
		}
		var end events.ChildCompleted
		if e.Kind == events.FactChildCompleted && (json.Unmarshal(e.Data, &end) != nil || !strings.Contains(string(end.Output), "asks-around-child is done, 0 calls failed, by the deputy")) {
			t.Errorf("the child ended with %s", e.Data)
		}
	}
	const want = "question_asked approval_decided model_answered child_started child_completed model_answered sleep_started timer_fired model_answered run_completed"
	if got := strings.Join(kinds, " "); !strings.HasSuffix(got, want) {
		t.Errorf("journal: %s", got)
	}
	if n := d.count(t, `SELECT count(*) FROM runner.v_runs WHERE parent_run_id = $1`, string(s.RunID)); n != 1 {
		t.Errorf("%d children, want 1", n)
	}
}
