package runner_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

const pricerDocuments = `
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: pricer}
spec:
  model: scripted
  instructions: work
  tools: [look]
  output: {schema: {type: object, properties: {price: {type: number}, shop: {type: string}}, required: [price, shop]}}
---
apiVersion: holdfast/v1
kind: Flow
metadata: {name: pricing}
spec:
  steps:
    - {name: find, agent: pricer}
    - {name: tell, agent: clerk, needs: [find], input: {at: "${steps.find.output.price}", in: "shop ${steps.find.output.shop}"}}
`

// A process fails behind the commit of an answer that is not accepted, and with the
// correction in its hand; the answer is corrected once, no tool runs twice, and the next step
// of the flow reads the fields of the output with every digit.
func TestRun_OutputIsCorrectedAcrossCrashesAndReadByTheNextStep(t *testing.T) {
	r := newRig(t)
	r.defs.apply(t, documents+pricerDocuments)
	r.worker(&script{answer: func(_ context.Context, q runner.Request, _ int) (runner.Answer, error) {
		switch {
		case q.System == "work":
			return said("told " + q.Entries[0].User), nil
		case len(q.Entries) == 1:
			return asks(call("look", `{"n":1}`)), nil
		case len(q.Entries) == 3:
			return said("the price is 1"), nil
		}
		return said("```json\n{\"shop\":\"a\",\"price\":12345678901234567890.10}\n```"), nil
	}})
	calls := r.tools(`1`)
	child := events.NewRunID()
	defer arm(t, "runner.answer_committed["+string(child)+"]=error#2")() // its rejection is there, nobody was told
	defer arm(t, "runner.answered["+string(child)+"]=error#3")()         // the first correction is lost
	r.startAs(child, events.KindAgent, "pricer", `{}`)
	flow := r.start(events.KindFlow, "pricing", `{}`)
	r.reaches(flow, events.StatusCompleted)
	r.reaches(child, events.StatusCompleted)

	if first := r.journal(child)[0]; !strings.Contains(string(first.Data), `"wording":1`) {
		t.Errorf("the first row does not say how the rule is worded: %s", first.Data)
	}
	want := []string{events.FactStarted, events.FactModelAnswered, events.FactToolCompleted, events.FactModelAnswered, events.FactOutputRejected, events.FactModelAnswered, events.FactCompleted}
	if diff := cmp.Diff(want, r.kinds(child)); diff != "" || len(calls.all()) < 2 {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
	r.consistent(child)
	var out json.RawMessage
	if err := r.sql.QueryRow(t.Context(), `SELECT output FROM runner.v_runs WHERE run_id = $1`, string(child)).Scan(&out); err != nil || string(out) != `{"shop":"a","price":12345678901234567890.10}` {
		t.Errorf("the output is %s (%v)", out, err)
	}
	if err := r.sql.QueryRow(t.Context(), `SELECT output->>'tell' FROM runner.v_runs WHERE run_id = $1`, string(flow)).Scan(&out); err != nil || !strings.Contains(string(out), `{"at":12345678901234567890.1,"in":"shop a"}`) && !strings.Contains(string(out), `{"at":12345678901234567890.10,"in":"shop a"}`) {
		t.Errorf("the next step says %s (%v)", out, err)
	}
}
