package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/blob"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// largeInput is JSON of about size bytes whose digits and escapes a careless
// hop would change.
func largeInput(size int) string {
	return `{"id":9007199254740993,"exact":12345678901234567890.123,"zero":-0,"text":"x\\u0000y \u00e9","fill":"` +
		strings.Repeat("0123456789abcdef", size/16) + `"}`
}

// startByReference stores input as the trigger does and starts a run with it.
func (r *rig) startByReference(kind, name, input string) (events.RunID, events.BlobRef) {
	r.t.Helper()
	id := events.NewRunID()
	ref := blob.Ref(events.DeliveryScope("d-"+string(id)), []byte(input))
	if err := blob.Put(r.t.Context(), r.sql, ref, []byte(input)); err != nil {
		r.t.Fatal(err)
	}
	r.announce(id, kind, name, ref)
	return id, ref
}

func (r *rig) announce(id events.RunID, kind, name string, ref events.BlobRef) {
	r.t.Helper()
	digest, err := r.defs.CurrentDigest(r.t.Context(), "", kind, name)
	if err != nil {
		r.t.Fatal(err)
	}
	r.publish(events.RunSubject(id, events.RunStart), "start:"+string(id), events.TypeStartRun, events.StartRun{
		RunID: id, Namespace: "default", Ref: events.Ref{Kind: kind, Name: name, Digest: digest}, InputRef: &ref,
		Trigger: events.Trigger{Kind: "api"}, AcceptedAt: id.Time(),
	})
}

// A start of five megabytes fits no message: the runner reads it where the
// reference points, and the journal has it as it was sent.
func TestCaseA03_StartByReference(t *testing.T) {
	r := newRig(t)
	input := largeInput(5 << 20)
	var asked []string
	r.worker(&script{answer: func(_ context.Context, q runner.Request, _ int) (runner.Answer, error) {
		asked = append(asked, q.Entries[0].User)
		return said("done"), nil
	}})
	id, _ := r.startByReference(events.KindAgent, "clerk", input)
	r.reaches(id, events.StatusCompleted)

	var first events.RunStarted
	if err := json.Unmarshal(r.journal(id)[0].Data, &first); err != nil {
		t.Fatal(err)
	}
	if string(first.Input) != input {
		t.Errorf("the journal has %d bytes of input, want the %d that were sent", len(first.Input), len(input))
	}
	var stored string
	if err := r.sql.QueryRow(t.Context(), `SELECT input::text FROM runner.v_runs WHERE run_id = $1`, string(id)).Scan(&stored); err != nil || stored != input {
		t.Errorf("the run shows %d bytes of input, %v", len(stored), err)
	}
	if len(asked) != 1 || !strings.Contains(asked[0], input) {
		t.Errorf("the model was asked %d times and did not read the input as it was sent", len(asked))
	}
	// Its event fits the bus and says what it leaves out.
	e := r.event(id, 1)
	if e.Elided < int64(len(input)) || string(e.Data) != "null" || e.Kind != events.FactStarted {
		t.Errorf("the event is %s of %d elided bytes with %.40s", e.Kind, e.Elided, e.Data)
	}
}

// event reads one event of a run from the EVENTS stream.
func (r *rig) event(id events.RunID, seq int64) (found events.RunEvent) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	_ = r.bus.TailEvents(ctx, 1, func(m events.Received) {
		var e events.RunEvent
		if m.Type == events.TypeRunEvent && events.Decode(m.Message, &e) == nil && e.RunID == id && e.Seq == seq {
			found = e
			cancel()
		}
	})
	return found
}

// Children get large inputs by reference too, and what was stored for a run goes
// with it.
func TestCaseA03_ChildrenByReference(t *testing.T) {
	r := newRig(t)
	r.worker(&script{answer: func(context.Context, runner.Request, int) (runner.Answer, error) { return said("done"), nil }})
	item := largeInput(1_200_000)
	id, _ := r.startByReference(events.KindFlow, "round", fmt.Sprintf(`{"items":[%s,{"small":1}]}`, item))
	r.reaches(id, events.StatusCompleted)
	var n int
	if err := r.sql.QueryRow(t.Context(), `SELECT count(*) FROM runner.v_runs WHERE parent_run_id = $1 AND input::text = $2`, string(id), item).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d children have the large item as it was sent, want 1; %v", n, err)
	}
	const blobs = `SELECT count(*) FROM blob.blobs WHERE scope LIKE 'run:%'`
	if err := r.sql.QueryRow(t.Context(), blobs).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d blobs of children, want the one large; %v", n, err)
	}
	if _, err := r.sql.Exec(t.Context(), `INSERT INTO console.deletions (run_id, namespace, principal, reason) VALUES ($1, 'default', 'op', '')`, string(id)); err != nil {
		t.Fatal(err)
	}
	r.eventually("the blobs of the deleted runs to go", func() bool { return r.count(blobs) == 0 }, func() string { return r.status(id) })
}

// A reference to nothing ends the run with the reason: it was accepted, so it
// must not vanish, and no retry helps.
func TestStart_ReferenceToNothing(t *testing.T) {
	r := newRig(t)
	r.worker(&script{answer: func(context.Context, runner.Request, int) (runner.Answer, error) { return said("done"), nil }})
	id := events.NewRunID()
	r.announce(id, events.KindAgent, "clerk", blob.Ref(events.DeliveryScope("gone"), []byte(`"x"`)))
	r.reaches(id, events.StatusFailed)
	if text := r.journalText(id); !strings.Contains(text, "input_gone") {
		t.Errorf("the journal does not say why:\n%s", text)
	}
}
