package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

const receiverURL = "https://receiver.example/in?a=1&b=2"

// startPosting starts a run whose end is to be posted.
func (r *rig) startPosting(name string) events.RunID {
	r.t.Helper()
	id := events.NewRunID()
	digest, err := r.defs.CurrentDigest(r.t.Context(), "", events.KindAgent, name)
	if err != nil {
		r.t.Fatal(err)
	}
	r.publish(events.RunSubject(id, events.RunStart), "start:"+string(id), events.TypeStartRun, events.StartRun{
		RunID: id, Namespace: "default", Ref: events.Ref{Kind: events.KindAgent, Name: name, Digest: digest}, Input: json.RawMessage(`{}`),
		Trigger: events.Trigger{Kind: "api"}, Callback: &events.Callback{URL: receiverURL}, AcceptedAt: time.Now().UTC(),
	})
	return id
}

// poster plays the tools service for callbacks.
func (r *rig) poster(status string) *box[events.CallTool] {
	return receive(r, events.StreamTools, events.ToolConsumer(events.PoolCallbacks), func(c events.CallTool) {
		if status != "" {
			r.finish(c, status, `{"status":200}`)
		}
	})
}

func (r *rig) pendingCallbacks(id events.RunID) (n int) {
	r.t.Helper()
	if err := r.sql.QueryRow(r.t.Context(), `SELECT count(*) FROM runner.v_pending WHERE run_id = $1 AND kind = 'callback'`, string(id)).Scan(&n); err != nil {
		r.t.Fatal(err)
	}
	return n
}

// However a run ends, the commit of its end owes one call; the answer is kept
// and the end stays as it is.
func TestCallback_EveryEndIsPostedOnce(t *testing.T) {
	t.Parallel()
	for want, how := range map[string]struct {
		answer string
		end    func(r *rig, id events.RunID)
		posted string
	}{
		events.StatusCompleted: {answer: "done", posted: events.CallSucceeded},
		events.StatusFailed:    {answer: " ", posted: events.CallUnknown},
		events.StatusCancelled: {posted: events.CallFailed, end: func(r *rig, id events.RunID) {
			r.reaches(id, events.StatusWaiting)
			r.command(id, events.RunCancel, events.Command{})
		}},
	} {
		t.Run(want, func(t *testing.T) {
			r := newRig(t)
			r.worker(&script{answer: func(context.Context, runner.Request, int) (runner.Answer, error) {
				if how.answer == "" {
					return asks(runner.ModelCall{Tool: "change"}), nil
				}
				return said(how.answer), nil
			}})
			calls := r.poster("")
			id := r.startPosting("clerk")
			if how.end != nil {
				how.end(r, id)
			}
			r.reaches(id, want)
			r.eventually("the call is out", func() bool { return len(calls.all()) == 1 }, func() string { return fmt.Sprint(calls.all()) })
			if n := r.pendingCallbacks(id); n != 1 {
				t.Errorf("%d pending callbacks, want 1", n)
			}
			before := r.journal(id)
			seq := before[len(before)-1].Seq
			c := calls.all()[0]
			digest, _ := r.defs.CurrentDigest(t.Context(), "", events.KindAgent, "clerk")
			args := json.RawMessage(`{"kind":"agent","name":"clerk","url":"` + receiverURL + `"}`)
			wanted := events.CallTool{CallID: events.NewCallID(id, seq, 0), RunID: id, Namespace: "default", Tool: events.CallbackTool, ToolDigest: digest,
				Args: args, ArgsDigest: events.DigestOf(args), Key: fmt.Sprintf("%s/%d/end", id, seq)}
			if diff := cmp.Diff(wanted, c); diff != "" {
				t.Errorf("call (-want +got):\n%s", diff)
			}

			r.finish(c, how.posted, "")
			r.eventually("the answer is recorded", func() bool { return len(r.kinds(id)) == len(before)+1 }, func() string { return r.journalText(id) })
			after := r.journal(id)
			if last := after[len(after)-1]; last.Kind != events.FactCallback || last.Status != want {
				t.Errorf("last row %+v", last)
			}
			if n := r.pendingCallbacks(id); n != 0 {
				t.Errorf("%d pending callbacks, want none", n)
			}
			if s := r.status(id); s != want {
				t.Errorf("the run is %s, want %s", s, want)
			}
			// What comes later changes nothing, and asks nobody.
			c.Key = "again"
			r.publish(events.RunSubject(id, events.RunToolCompleted), fmt.Sprintf("tool:%s:unknown:2", c.CallID), events.TypeToolCompleted,
				events.ToolCompleted{CallID: c.CallID, RunID: id, Tool: c.Tool, Status: events.CallUnknown, InDoubt: "ask", Epoch: 2})
			r.eventually("the late answer is kept", func() bool { return len(r.kinds(id)) == len(before)+2 }, func() string { return r.journalText(id) })
			if last := r.kinds(id); last[len(last)-1] != events.FactLateResult {
				t.Errorf("journal %v", last)
			}
			r.drained()
			r.consistent(id)
		})
	}
}

// NATS loses everything after the end: the doctor asks until tools has answered.
func TestCallback_AllMessagesLostAfterTheEnd(t *testing.T) {
	r := newRig(t)
	r.worker(&script{answer: func(context.Context, runner.Request, int) (runner.Answer, error) { return said("done"), nil }},
		func(c *runner.Config) { c.DoctorEvery = 200 * time.Millisecond })
	id := r.startPosting("clerk")
	r.reaches(id, events.StatusCompleted)
	r.drained()
	r.nats.Wipe()
	calls := r.poster("")
	nudge := func(n int) {
		r.eventually(fmt.Sprintf("the call has come %d times", n), func() bool {
			if _, err := r.sql.Exec(t.Context(), `UPDATE runner.pending SET next_nudge = clock_timestamp(), nudges = nudges + 100`); err != nil {
				t.Fatal(err)
			}
			return len(calls.all()) >= n
		}, func() string { return fmt.Sprint(len(calls.all())) })
	}
	nudge(2)
	r.finish(calls.all()[0], events.CallSucceeded, `{"status":200}`)
	r.eventually("nothing is pending", func() bool { return r.pendingCallbacks(id) == 0 }, func() string { return r.journalText(id) })
	kinds := r.kinds(id)
	if kinds[len(kinds)-1] != events.FactCallback {
		t.Errorf("journal %v", kinds)
	}
}

// A run without a callback, and a child of one that has one, post nothing.
func TestCallback_OnlyForRunsThatNameOne(t *testing.T) {
	r := newRig(t)
	r.worker(&script{answer: func(context.Context, runner.Request, int) (runner.Answer, error) { return said("done"), nil }})
	calls := r.poster(events.CallSucceeded)
	id := r.start(events.KindAgent, "clerk", `{}`)
	r.reaches(id, events.StatusCompleted)
	named := r.startPosting("clerk")
	r.eventually("the other one is posted", func() bool { return len(calls.all()) == 1 }, func() string { return fmt.Sprint(calls.all()) })
	if c := calls.all()[0]; c.RunID != named {
		t.Errorf("run %s was posted, want %s", c.RunID, named)
	}
	if n := r.pendingCallbacks(id); n != 0 {
		t.Errorf("%d pending callbacks, want none", n)
	}
}
