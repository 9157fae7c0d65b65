package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

const signalDefinitions = `apiVersion: holdfast/v1
kind: Tool
metadata: {name: await}
spec:
  description: Waits for the payment of a job.
  input: {type: object, properties: {job: {type: string}}, required: [job]}
  effect: read
  signal: {name: paid, key: "${args.job}", timeout: 1h}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: cashier}
spec: {model: scripted, instructions: "SHOP cashier", tools: [await]}
---
apiVersion: holdfast/v1
kind: Webhook
metadata: {name: invoices}
spec:
  provider: standard
  secrets: [{env: E2E_WEBHOOK_SECRET}]
  agent: cashier
  input: {job: "${body.job}", do: [await]}
---
apiVersion: holdfast/v1
kind: Webhook
metadata: {name: payments}
spec:
  provider: standard
  secrets: [{env: E2E_WEBHOOK_SECRET}]
  signal: {name: paid, key: "${body.invoice}", data: {paid: "${body.amount}"}}
`

// One webhook starts a run that waits; another, of another system, says what it
// waited for. The one comes before the other as well as after it.
func signalEndsAWait(t *testing.T, d *deployment) {
	text := strings.ReplaceAll(signalDefinitions, "SHOP", d.out.shopURL)
	if _, err := d.admin.Apply(t.Context(), []client.Document{{File: "signals.yaml", Text: text}}); err != nil {
		t.Fatal(err)
	}
	send := func(hook, id string, body any) answer {
		t.Helper()
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		a, err := d.deliver(t, "/hooks/"+hook, id, raw)
		if err != nil || a.status != http.StatusAccepted {
			t.Fatalf("%s: %d %s, %v", hook, a.status, a.body, err)
		}
		return a
	}
	pay := func(job string) {
		send("payments", "msg_pay_"+job, map[string]any{"invoice": job, "amount": json.Number("9007199254740993")})
	}
	bill := func(job string) events.RunID {
		return accepted(t, send("invoices", "msg_bill_"+job, map[string]string{"job": job})).RunID
	}
	ended := func(id events.RunID, job string) {
		t.Helper()
		r := d.runOf(t, id, events.StatusCompleted)
		if want := job + " is done, 0 calls failed"; !strings.Contains(string(r.Output), want) {
			t.Errorf("output %s, want %q", r.Output, want)
		}
		var kinds []string
		for _, e := range d.journal(t, id) {
			kinds = append(kinds, e.Kind)
			var sig events.Signal
			if e.Kind == events.FactSignalReceived && (json.Unmarshal(e.Data, &sig) != nil || string(sig.Data) != `{"paid":9007199254740993}` || sig.Key != job) {
				t.Errorf("the run was handed %s", e.Data)
			}
		}
		if got := strings.Join(kinds, " "); !strings.Contains(got, "signal_received signal_taken model_answered run_completed") {
			t.Errorf("journal: %s", got)
		}
	}

	waits := bill("pays-later")
	d.runOf(t, waits, events.StatusWaiting)
	why, err := d.operator.Why(t.Context(), waits)
	if err != nil || !strings.HasPrefix(why.Sentence, `waiting for signal paid, key "pays-later", since `) {
		t.Errorf("%q, %v", why.Sentence, err)
	}
	pay("pays-later")
	ended(waits, "pays-later")

	pay("pays-first")
	out, bad, code := d.cli(t, "signals", "list", "--key", "pays-first")
	if code != 0 || !strings.Contains(out, "kept") {
		t.Errorf("exit %d: %s%s", code, out, bad)
	}
	ended(bill("pays-first"), "pays-first")
	until(t, "both to be taken", func() bool {
		p, err := d.operator.Signals(t.Context(), client.SignalFilter{State: "taken", Name: "paid"}, client.PageRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return len(p.Items) == 2
	})
}
