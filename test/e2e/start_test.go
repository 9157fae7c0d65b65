package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// errand is the whole path: read a page, then a write that a person allows.
func errand(name string) job { return job{Job: name, Do: []string{"read", "order"}} }

// queuedUntilARunnerComes must be called before there is a runner; afterwards
// there is one.
func (d *deployment) queuedUntilARunnerComes(t *testing.T) {
	t.Helper()
	j := job{Job: "early", Do: []string{"read"}}
	body := []byte(`{"input":` + string(j.input()) + `}`)
	a := d.send(t, http.MethodPost, "/v1/agents/clerk/runs", d.token, body, nil)
	s := accepted(t, a)
	status := d.send(t, http.MethodGet, a.header.Get("Location"), d.token, nil, nil)
	var r client.Run
	status.into(t, &r)
	if status.status != http.StatusOK || r.Status != events.StatusQueued || r.RunID != s.RunID {
		t.Fatalf("without a runner the link answers %d %s, want 200 and queued", status.status, status.body)
	}
	d.tellsWhatNobodyTakes(t, s.RunID, j)
	d.runners(1)
}

// walk takes a started errand to its end: the question, the yes, the effect.
func (d *deployment) walk(t *testing.T, id events.RunID, j job, source string) {
	t.Helper()
	question := d.approval(t, id, events.ApprovalAction)
	if question.Tool != "order" || string(question.Args) != `{"job":"`+j.Job+`"}` || question.Agent != "clerk" {
		t.Errorf("the question is about %s of %s with %s", question.Tool, question.Agent, question.Args)
	}
	if n := d.out.effects("order", j.Job); n != 0 {
		t.Fatalf("%d orders before anybody said yes", n)
	}
	r := d.runOf(t, id, events.StatusWaiting)
	if !strings.Contains(r.Waiting, "approval") {
		t.Errorf("the run waits for %q", r.Waiting)
	}
	decided, err := d.approver.Decide(t.Context(), question.ApprovalID, client.Decision{Decision: "approve", Digest: question.Digest})
	if err != nil {
		t.Fatal(err)
	}
	if decided.DecidedBy != "ann" {
		t.Errorf("decided by %q, want the name of the token", decided.DecidedBy)
	}
	d.finished(t, id, j, 0)
	if r := d.runOf(t, id, events.StatusCompleted); r.Trigger == nil || r.Trigger.Kind != source {
		t.Errorf("the run was started by %+v, want %s", r.Trigger, source)
	}
	if n := d.count(t, `SELECT count(*) FROM trigger.v_deliveries WHERE input->>'job' = $1 AND source_kind = $2 AND run_id = $3`, j.Job, source, string(id)); n != 1 {
		t.Errorf("%d deliveries of %s by %s", n, j.Job, source)
	}
	d.journalTells(t, id)
}

// journalTells reads the journal of an errand as an operator does.
func (d *deployment) journalTells(t *testing.T, id events.RunID) {
	t.Helper()
	out, bad, code := d.cli(t, "runs", "get", string(id), "--journal", "--json")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, bad)
	}
	var journal client.Page[client.Event]
	if err := json.Unmarshal([]byte(out), &journal); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, e := range journal.Items {
		kinds = append(kinds, e.Kind)
	}
	want := []string{
		events.FactStarted,
		events.FactModelAnswered, events.FactToolCompleted,
		events.FactModelAnswered, events.FactApprovalDecided, events.FactToolCompleted,
		events.FactModelAnswered, events.FactCompleted,
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
	var first events.RunStarted
	if err := json.Unmarshal(journal.Items[0].Data, &first); err != nil {
		t.Fatal(err)
	}
	refs := append([]events.Ref{first.Ref, *first.Model}, first.Tools...)
	for _, r := range refs {
		if !strings.HasPrefix(string(r.Digest), "sha256:") {
			t.Errorf("%s %s is not pinned: %q", r.Kind, r.Name, r.Digest)
		}
	}
	if len(first.Tools) != 4 || first.Policies == "" {
		t.Errorf("the first row pins %d tools, want 4, and policies %q", len(first.Tools), first.Policies)
	}
}

func webhookStartsOneRun(t *testing.T, d *deployment) {
	j := errand("by-webhook")
	a, err := d.deliver(t, "/hooks/jobs", "msg_by_webhook", j.input())
	if err != nil {
		t.Fatal(err)
	}
	s := accepted(t, a)
	d.walk(t, s.RunID, j, "webhook")
	page, err := d.operator.Runs(t.Context(), client.RunFilter{Labels: map[string]string{"job": j.Job}}, client.PageRequest{})
	if err != nil || len(page.Items) != 1 || page.Items[0].RunID != s.RunID {
		t.Errorf("runs with the label of the delivery: %+v, %v", page.Items, err)
	}
	// The status link works long after, and a repeat of the delivery is the run.
	if a, err = d.deliver(t, "/hooks/jobs", "msg_by_webhook", j.input()); err != nil || a.header.Get("Idempotency-Replayed") != "true" || accepted(t, a).RunID != s.RunID {
		t.Errorf("a late repeat: %d %s, %v", a.status, a.body, err)
	}
	forged, err := d.trySend(t, http.MethodPost, "/hooks/jobs", "", j.input(), map[string]string{
		"webhook-id": "msg_forged", "webhook-timestamp": "1", "webhook-signature": "v1,AAAA",
	})
	if err != nil || forged.status != http.StatusUnauthorized {
		t.Errorf("a forged delivery: %d %s, %v", forged.status, forged.body, err)
	}
}

func apiStartsOneRun(t *testing.T, d *deployment) {
	j := errand("by-api")
	s, err := d.operator.Start(t.Context(), client.StartRequest{Agent: "clerk", Input: j.input(), Labels: map[string]string{"customer": "42"}})
	if err != nil {
		t.Fatal(err)
	}
	d.walk(t, s.RunID, j, "api")
	if r := d.runOf(t, s.RunID, events.StatusCompleted); r.Principal != "ops" || r.Labels["customer"] != "42" {
		t.Errorf("started by %q with labels %v", r.Principal, r.Labels)
	}
}

func scheduleStartsOneRun(t *testing.T, d *deployment) {
	s, err := d.operator.TriggerSchedule(t.Context(), "nightly", "")
	if err != nil {
		t.Fatal(err)
	}
	r, err := d.operator.Run(t.Context(), s.RunID)
	if err != nil {
		t.Fatal(err)
	}
	var j job
	if err := json.Unmarshal(r.Input, &j); err != nil || !strings.HasPrefix(j.Job, "nightly-20") {
		t.Fatalf("input %s", r.Input)
	}
	d.walk(t, s.RunID, j, "schedule")
	sched, err := d.operator.Schedule(t.Context(), "nightly")
	if err != nil || len(sched.Next) == 0 || sched.Last == nil && sched.Next[0].Local == "" {
		t.Errorf("schedule %+v, %v", sched, err)
	}
}

// messageStartsOneRun publishes as any program does, with its own library, and
// repeats itself past what the stream recognises.
func messageStartsOneRun(t *testing.T, d *deployment) {
	j := errand("by-message")
	nc := d.nats(t)
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	for _, repeat := range []string{"first", "second", "third"} {
		m := nats.NewMsg("hf.in.jobs")
		m.Data = []byte(`{"agent":"clerk","input":` + string(j.input()) + `}`)
		m.Header.Set("ce-id", "order-4711")
		m.Header.Set("Nats-Msg-Id", "order-4711-"+repeat)
		if _, err := js.PublishMsg(m, nats.Context(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	var id string
	until(t, "the message to be taken", func() bool {
		return d.db.QueryRow(t.Context(), `SELECT run_id FROM trigger.v_deliveries WHERE input->>'job' = $1`, j.Job).Scan(&id) == nil
	})
	d.walk(t, events.RunID(id), j, "event")
}

// twenty sends one start twenty times at once: each is accepted, all are one run.
func (d *deployment) twenty(t *testing.T, j job, send func() (answer, error)) {
	t.Helper()
	answers := make([]answer, 20)
	errs := make([]error, len(answers))
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i], errs[i] = send() })
	}
	all.Wait()
	var ids []events.RunID
	for i, a := range answers {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		ids = append(ids, accepted(t, a).RunID)
	}
	slices.Sort(ids)
	if n := len(slices.Compact(slices.Clone(ids))); n != 1 {
		t.Fatalf("one start was answered with %d runs", n)
	}
	if n := d.count(t, `SELECT count(*) FROM trigger.v_deliveries WHERE input->>'job' = $1`, j.Job); n != 1 {
		t.Errorf("%d rows for one start", n)
	}
	d.finished(t, ids[0], j, 0)
}

func twentyDeliveries(t *testing.T, d *deployment) {
	j := job{Job: "twenty-deliveries", Do: []string{"pay"}}
	d.twenty(t, j, func() (answer, error) { return d.deliver(t, "/hooks/jobs", "msg_twenty", j.input()) })
}

func twentyKeys(t *testing.T, d *deployment) {
	j := job{Job: "twenty-keys", Do: []string{"pay"}}
	body := []byte(`{"input":` + string(j.input()) + `}`)
	d.twenty(t, j, func() (answer, error) {
		return d.trySend(t, http.MethodPost, "/v1/agents/clerk/runs", d.token, body, map[string]string{"Idempotency-Key": "twenty"})
	})
}
