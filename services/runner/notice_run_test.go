package runner_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/runner/postgres"
)

const telling = `
apiVersion: holdfast/v1
kind: Agent
metadata: {name: teller}
spec:
  model: scripted
  instructions: work
  tools: [look]
  budget: {modelCalls: 5}
  notify: {on: [failed, needs_attention, budget], channel: ops}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: broken}
spec: {model: nowhere, instructions: work, notify: {on: [failed], channel: ops}}
`

// published is what a relay has published.
type published struct {
	mu  sync.Mutex
	got []events.Message
}

func (p *published) publish(_ context.Context, m events.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got = append(p.got, m)
	return nil
}

func (p *published) of(t *testing.T, reason string) (out []events.Message) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.got {
		var n events.Notice
		if err := events.Decode(m, &n); err != nil {
			t.Fatal(err)
		}
		if n.Reason == reason {
			out = append(out, m)
		}
	}
	return out
}

// A notice is a row of the commit that gives the reason, and is published until
// approvals has it: the loss of all messages loses none, and each is one notice.
func TestNotices_AreOwedUntilApprovalsHasThem(t *testing.T) {
	r := newRig(t)
	r.unread = true // a journal is damaged below
	r.defs.apply(t, documents+"---"+telling)
	r.cached = 1
	r.worker(&script{answer: func(context.Context, runner.Request, int) (runner.Answer, error) {
		return asks(runner.ModelCall{Tool: "look"}), nil
	}})
	sent := r.tools("")
	told := &published{}
	relay := postgres.New(r.db.Open(t, "holdfast_runner")).Notices(told.publish, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = relay.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })

	// Its model is not there: it fails with its first row.
	broken := r.start(events.KindAgent, "broken", `{}`)
	r.reaches(broken, events.StatusFailed)
	// Its journal cannot be read: nothing of it is, and people are told.
	damaged := r.start(events.KindAgent, "teller", `{}`)
	r.reaches(damaged, events.StatusWaiting)
	r.exec(`UPDATE runner.journal SET data = '"garbled"' WHERE run_id = $1 AND seq = 2`, string(damaged))
	// It stops at its own ceiling.
	paused := r.start(events.KindAgent, "teller", `{}`)
	r.reaches(paused, events.StatusWaiting) // and took the other's place in the worker's memory
	finish := func() {
		for _, c := range sent.all() {
			r.finish(c, events.CallSucceeded, `{}`)
		}
	}
	r.eventually("the run to stop at its ceiling", func() bool { finish(); return r.status(paused) == events.StatusPaused }, func() string { return r.journalText(paused) })
	r.reaches(damaged, events.StatusAttention)

	// The ceilings are passed at the fourth and the fifth of five calls.
	want := map[string]int{events.NoticeBudget: 2, events.NoticeFailed: 1, events.NoticeNeedsAttention: 1}
	for reason, n := range want {
		r.eventually("notices for "+reason, func() bool { return len(told.of(t, reason)) >= n }, func() string { return "" })
	}
	first := told.of(t, events.NoticeFailed)[0]
	var n events.Notice
	if err := events.Decode(first, &n); err != nil {
		t.Fatal(err)
	}
	if n.RunID != broken || n.Channel != "ops" || n.Name != "broken" || n.Kind != events.KindAgent || n.Error == nil || n.At.IsZero() ||
		first.Subject != "hf.approval."+string(broken)+"-notice-failed.notify" || first.ID != "notify:"+string(n.NoticeID) {
		t.Errorf("%s %s: %+v", first.Subject, first.ID, n)
	}
	passed := map[int]int{} // they may overtake each other on their way
	for _, m := range told.of(t, events.NoticeBudget) {
		var n events.Notice
		if err := events.Decode(m, &n); err != nil || n.Alert == nil || n.RunID != paused || n.Name != "teller" {
			t.Fatalf("budget: %+v of %+v, %v", n.Alert, n, err)
		}
		passed[int(n.Alert.Percent)]++
	}
	if passed[80] != 1 || passed[100] != 1 {
		t.Errorf("alerts by percent: %v, want one of 80 and one of 100", passed)
	}

	// Nobody has taken them: all are published again, with the same id and body.
	r.exec(`UPDATE runner.notices SET next_announce_at = clock_timestamp()`)
	for reason, n := range want {
		r.eventually("notices again for "+reason, func() bool { return len(told.of(t, reason)) == 2*n }, func() string { return "" })
	}
	again := told.of(t, events.NoticeFailed)[1]
	if again.MsgID == first.MsgID || !strings.HasPrefix(again.MsgID, first.ID+":") {
		t.Errorf("published again as %s, want a fresh id", again.MsgID)
	}
	again.MsgID = first.MsgID
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("published again as another one (-first +again)\n%s", diff)
	}
	// Approvals has them: nothing is owed any more.
	r.exec(`INSERT INTO approvals.notices (notice_id, namespace, channel, reason, body) SELECT notice_id, namespace, channel, 'x', '{}' FROM runner.notices`)
	r.eventually("they have landed", func() bool {
		return r.count(`SELECT count(*) FROM runner.notices WHERE landed_at IS NOT NULL AND next_announce_at IS NULL`) == 4
	}, func() string { return "" })
}
