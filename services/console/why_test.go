package console

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
)

func TestWhy(t *testing.T) {
	t.Parallel()
	t0 := time.Date(2026, 3, 5, 2, 14, 0, 0, time.UTC)
	now := t0.Add(5*time.Hour + 28*time.Minute)
	all := []Worker{{Service: "runner"}, {Service: "tools"}}
	dead := []Worker{{Service: "runner", Age: time.Minute}, {Service: "tools", Age: time.Minute}}
	run := func(status string) Run {
		return Run{ID: "r", Status: status, Seq: 4, AcceptedAt: t0, UpdatedAt: t0, Announced: true}
	}
	for name, tc := range map[string]struct {
		in        Situation
		want      string
		wantKinds []string
	}{
		"accepted and taken by nobody": {
			in:   Situation{Run: Run{Status: "queued", AcceptedAt: now.Add(-12 * time.Second), Announced: true}, Workers: all},
			want: "queued: no runner has taken it for 12 s", wantKinds: []string{"queue"},
		},
		"has a deadline": {
			in:   Situation{Run: func() Run { r := run("paused"); r.Waiting, r.Deadline = "paused by operator: freeze", now; return r }(), Workers: all},
			want: "paused by operator: freeze, since 2026-03-05 02:14:00 UTC, until its deadline 2026-03-05 07:42:00 UTC",
		},
		"ended before its deadline": {
			in:   Situation{Run: func() Run { r := run("completed"); r.EndedAt, r.Deadline = t0, now; return r }(), Workers: all},
			want: "completed at 2026-03-05 02:14:00 UTC",
		},
		"accepted while no runner lives": {
			in:   Situation{Run: Run{Status: "queued", AcceptedAt: now.Add(-3 * time.Minute), Announced: true}, Workers: dead},
			want: "queued: no runner has taken it for 3 min; no runner is alive", wantKinds: []string{"queue"},
		},
		"accepted while the bus is away": {
			in:   Situation{Run: Run{Status: "queued", AcceptedAt: t0}, Workers: all},
			want: "queued: no runner has taken it for 5 h 28 min; it has not reached the event bus yet", wantKinds: []string{"queue"},
		},
		"asks the model": {
			in: Situation{Run: func() Run { r := run("running"); r.ClaimWorker, r.ClaimAt = "runner-1", t0; return r }(), Workers: all,
				Pending: []Pending{{Item: "model", Kind: "model", Since: t0}}},
			want: "asking the model since 2026-03-05 02:14:00 UTC (worker runner-1)", wantKinds: []string{"model"},
		},
		"owes a model call that nobody took": {
			in:   Situation{Run: run("running"), Workers: dead, Pending: []Pending{{Item: "model", Kind: "model", Since: now.Add(-time.Minute)}}},
			want: "queued: no runner has taken its model call for 1 min; no runner is alive", wantKinds: []string{"model"},
		},
		"waits for a shared budget": {
			in:   Situation{Run: run("running"), Workers: all, Pending: []Pending{{Item: "model", Kind: "model", Since: t0, Pool: "night"}}},
			want: "waiting since 2026-03-05 02:14:00 UTC for room in the budget night, which the calls of other runs have booked", wantKinds: []string{"model"},
		},
		"waits for a tool": {
			in:   Situation{Run: run("waiting"), Workers: all, Pending: []Pending{{Item: "call/x", Kind: "tool", Detail: "propose_price", Since: t0}}},
			want: "waiting for tool propose_price since 2026-03-05 02:14:00 UTC", wantKinds: []string{"tool"},
		},
		"waits for a lookup": {
			in:   Situation{Run: run("waiting"), Workers: all, Pending: []Pending{{Item: "call/x", Kind: "tool", Detail: "pay", Since: t0, Probed: true, NextLook: t0}}},
			want: "waiting for tool pay since 2026-03-05 02:14:00 UTC: looking whether it happened, next at 2026-03-05 02:14:00 UTC", wantKinds: []string{"tool"},
		},
		"waits for a callback, which needs no worker": {
			in:   Situation{Run: run("waiting"), Workers: dead, Pending: []Pending{{Item: "call/x", Kind: "tool", Detail: "render", Since: t0, Awaited: t0}}},
			want: "waiting for tool render since 2026-03-05 02:14:00 UTC: waiting for callback until 2026-03-05 02:14:00 UTC", wantKinds: []string{"tool"},
		},
		"waits for a tool that a stop holds": {
			in: Situation{Run: run("waiting"), Workers: dead, Pending: []Pending{{Item: "call/x", Kind: "tool", Detail: "propose_price", Since: t0}},
				Held: []Held{{CallID: "x", By: "maria", Note: "wrong prices", Since: t0}}},
			want:      "waiting for tool propose_price since 2026-03-05 02:14:00 UTC, held by the stop of maria since 2026-03-05 02:14:00 UTC: wrong prices",
			wantKinds: []string{"tool"},
		},
		"waits for its turn": {
			in: Situation{Run: run("waiting"), Workers: all, Pending: []Pending{{Item: "call/x", Kind: "tool", Detail: "pay", Since: t0}},
				Delayed: []Delayed{{CallID: "x", Limit: "the limit of the tool: 10/s", NextAt: t0}}},
			want:      "waiting for tool pay since 2026-03-05 02:14:00 UTC, for its turn under the limit of the tool: 10/s, next at 2026-03-05 02:14:00 UTC",
			wantKinds: []string{"tool"},
		},
		"waits for the next attempt": {
			in: Situation{Run: run("waiting"), Workers: all, Pending: []Pending{{Item: "call/x", Kind: "tool", Detail: "pay", Since: t0}},
				Delayed: []Delayed{{CallID: "x", Attempts: 3, Error: "pay.example.com failed 5 times in a row, so nothing is sent to it for 30s", NextAt: t0}}},
			want: "waiting for tool pay since 2026-03-05 02:14:00 UTC, tried 3 times, again at 2026-03-05 02:14:00 UTC: pay.example.com failed 5 times in a row, " +
				"so nothing is sent to it for 30s",
			wantKinds: []string{"tool"},
		},
		"waits for a host that failed": {
			in: Situation{Run: run("waiting"), Workers: all, Pending: []Pending{{Item: "call/x", Kind: "tool", Detail: "pay", Since: t0}},
				Delayed: []Delayed{{CallID: "x", Error: "pay.example.com failed 5 times in a row, so nothing is sent to it for 30s", NextAt: t0}}},
			want: "waiting for tool pay since 2026-03-05 02:14:00 UTC, not tried yet, next at 2026-03-05 02:14:00 UTC: pay.example.com failed 5 times in a row, " +
				"so nothing is sent to it for 30s",
			wantKinds: []string{"tool"},
		},
		"waits for a tool that no worker takes": {
			in:   Situation{Run: run("waiting"), Workers: dead, Pending: []Pending{{Item: "call/x", Kind: "tool", Detail: "propose_price", Since: t0}}},
			want: "waiting for tool propose_price since 2026-03-05 02:14:00 UTC, no tools worker is alive", wantKinds: []string{"tool"},
		},
		"waits in a pool without a worker": {
			in: Situation{Run: run("waiting"), Workers: []Worker{{Service: "tools", Pools: []string{"default"}}, {Service: "tools", Age: time.Minute, Pools: []string{"gpu"}}},
				Pending: []Pending{{Item: "call/x", Kind: "tool", Detail: "render", Since: t0, ToolPool: "gpu", Behind: 3}}},
			want: "waiting for tool render since 2026-03-05 02:14:00 UTC, no worker for pool gpu", wantKinds: []string{"tool"},
		},
		"waits in the queue of a pool": {
			in: Situation{Run: run("waiting"), Workers: []Worker{{Service: "tools", Pools: []string{"default", "gpu"}}},
				Pending: []Pending{{Item: "call/x", Kind: "tool", Detail: "render", Since: t0, ToolPool: "gpu", Behind: 3}}},
			want: "waiting for tool render since 2026-03-05 02:14:00 UTC, queued behind 3 in pool gpu", wantKinds: []string{"tool"},
		},
		"is with a worker that does not say its pools": {
			in: Situation{Run: run("waiting"), Workers: all,
				Pending: []Pending{{Item: "call/x", Kind: "tool", Detail: "render", Since: t0, ToolPool: "gpu", Taken: true, Behind: 3}}},
			want: "waiting for tool render since 2026-03-05 02:14:00 UTC", wantKinds: []string{"tool"},
		},
		"owes a model call behind others": {
			in:   Situation{Run: run("running"), Workers: all, Pending: []Pending{{Item: "model", Kind: "model", Since: now.Add(-time.Minute), Behind: MaxBehind}}},
			want: "queued: no runner has taken its model call for 1 min, queued behind 1000 or more", wantKinds: []string{"model"},
		},
		"people come first, then tools": {
			in: Situation{Run: run("waiting"), Workers: all,
				Pending: []Pending{
					{Item: "call/x", Kind: "tool", Detail: "fetch_page", Since: t0},
					{Item: "approval/a1", Kind: "approval", Detail: "propose_price", Since: t0},
				},
				Approvals: []Approval{{ID: "a1", CreatedAt: t0.Add(time.Second), ExpiresAt: now}}},
			want: "waiting for a person to approve propose_price since 2026-03-05 02:14:01 UTC, expires 2026-03-05 07:42:00 UTC; " +
				"and waiting for tool fetch_page since 2026-03-05 02:14:00 UTC",
			wantKinds: []string{"approval", "tool"},
		},
		"does not know whether it happened": {
			in:   Situation{Run: run("waiting"), Workers: all, Pending: []Pending{{Item: "approval/d1", Kind: "doubt", Detail: "propose_price", Since: t0}}},
			want: "waiting for a person to say whether propose_price happened since 2026-03-05 02:14:00 UTC", wantKinds: []string{"doubt"},
		},
		"waits for an answer": {
			in: Situation{Run: run("waiting"), Workers: all, Pending: []Pending{{Item: "approval/q1", Kind: "question", Detail: "ask_pricing", Since: t0}},
				Approvals: []Approval{{ID: "q1", CreatedAt: t0.Add(time.Second), ExpiresAt: now}}},
			want:      "waiting for a person's answer to ask_pricing since 2026-03-05 02:14:01 UTC, expires 2026-03-05 07:42:00 UTC",
			wantKinds: []string{"question"},
		},
		"sleeps, beside a child that nothing waits for": {
			in: Situation{Run: run("waiting"), Workers: all, Pending: []Pending{
				{Item: "child/call/2-1", Kind: "started", Since: t0}, {Item: "timer/x", Kind: "timer", Detail: "2026-03-08T02:14:00Z", Since: t0}}},
			want:      "sleeping since 2026-03-05 02:14:00 UTC, until 2026-03-08 02:14:00 UTC",
			wantKinds: []string{"timer"},
		},
		"waits for children as one": {
			in: Situation{Run: run("waiting"), Workers: all, Pending: []Pending{
				{Item: "child/check/1", Kind: "child", Since: t0.Add(time.Second)}, {Item: "child/check/0", Kind: "child", Since: t0}}},
			want: "waiting for 2 child runs since 2026-03-05 02:14:00 UTC", wantKinds: []string{"child"},
		},
		"many waits are counted": {
			in: Situation{Run: run("waiting"), Workers: all, Pending: []Pending{
				{Kind: "tool", Detail: "a", Since: t0}, {Kind: "tool", Detail: "b", Since: t0}, {Kind: "tool", Detail: "c", Since: t0},
				{Kind: "tool", Detail: "d", Since: t0}, {Kind: "tool", Detail: "e", Since: t0}}},
			want: "waiting for tool a since 2026-03-05 02:14:00 UTC; and waiting for tool b since 2026-03-05 02:14:00 UTC; " +
				"and waiting for tool c since 2026-03-05 02:14:00 UTC; and 2 more",
			wantKinds: []string{"tool", "tool", "tool", "tool", "tool"},
		},
		"is being stopped": {
			in:   Situation{Run: run("cancelling"), Workers: all, Pending: []Pending{{Kind: "tool", Detail: "print_label", Since: t0}}},
			want: "stopping: waiting for tool print_label since 2026-03-05 02:14:00 UTC", wantKinds: []string{"tool"},
		},
		"is paused": {
			in:   Situation{Run: func() Run { r := run("paused"); r.Waiting = "paused by budget: pool night is at its ceiling"; return r }()},
			want: "paused by budget: pool night is at its ceiling, since 2026-03-05 02:14:00 UTC",
		},
		"is parked": {
			in: Situation{Run: func() Run {
				r := run("needs_attention")
				r.Error = json.RawMessage(`{"code":"crash_loop","message":"4 runners died with it"}`)
				return r
			}()},
			want: "parked, needs attention: 4 runners died with it",
		},
		"has failed": {
			in: Situation{Run: func() Run {
				r := run("failed")
				r.EndedAt, r.Error = t0, json.RawMessage(`{"code":"model_refused"}`)
				return r
			}(), Pending: []Pending{{Kind: "tool"}}},
			want: "failed at 2026-03-05 02:14:00 UTC: model_refused",
		},
		"waits for a signal": {
			in: Situation{Run: run("waiting"), Pending: []Pending{{Kind: "signal", Item: "signal/x", Since: t0,
				Detail: `{"name":"payment_received","key":"42","until":"2026-03-08T02:14:00Z"}`}}},
			want:      `waiting for signal payment_received, key "42", since 2026-03-05 02:14:00 UTC, until 2026-03-08 02:14:00 UTC`,
			wantKinds: []string{"signal"},
		},
		"waits for a timer": {
			in:   Situation{Run: func() Run { r := run("waiting"); r.Waiting = "next model attempt at 02:20"; return r }()},
			want: "waiting for next model attempt at 02:20, since 2026-03-05 02:14:00 UTC",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.in.Now = now
			got := Why(tc.in)
			if diff := cmp.Diff(tc.want, got.Sentence); diff != "" {
				t.Errorf("sentence (-want +got):\n%s", diff)
			}
			var kinds []string
			for _, w := range got.Waits {
				kinds = append(kinds, w.Kind)
			}
			if diff := cmp.Diff(tc.wantKinds, kinds); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOrder_Check(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in Order
		ok bool
	}{
		"cancel":                {Order{Kind: events.RunCancel}, true},
		"raise of a run":        {Order{Kind: events.RunRaiseBudget, Budget: "tokens", To: 1}, true},
		"raise of a pool":       {Order{Kind: events.RunRaiseBudget, Budget: "pool:night", To: 1}, true},
		"raise of nothing":      {Order{Kind: events.RunRaiseBudget, Budget: "money", To: 1}, false},
		"raise of no pool":      {Order{Kind: events.RunRaiseBudget, Budget: "pool:", To: 1}, false},
		"raise to nothing":      {Order{Kind: events.RunRaiseBudget, Budget: "tokens"}, false},
		"signal":                {Order{Kind: events.RunSignal, Signal: "go"}, true},
		"signal without a name": {Order{Kind: events.RunSignal}, false},
		"signal with a key":     {Order{Kind: events.RunSignal, Signal: "go", WaitKey: "№ 42"}, true},
		"signal with a bad key": {Order{Kind: events.RunSignal, Signal: "go", WaitKey: "a\x00"}, false},
		"signal with too much":  {Order{Kind: events.RunSignal, Signal: "go", Data: make([]byte, events.SignalDataBytes+1)}, false},
		"unknown":               {Order{Kind: "start"}, false},
	} {
		if err := tc.in.Check(); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCommand_SameIgnoresIDAndSpelling(t *testing.T) {
	t.Parallel()
	make := func(id, who string, o Order) Command {
		c, err := o.command(id, "default", who, "k", "r")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	a := make("1", "maria", Order{Kind: events.RunSignal, Signal: "s", Data: json.RawMessage(`{"a":1,"b":2}`)})
	b := make("2", "jonas", Order{Kind: events.RunSignal, Signal: "s", Data: json.RawMessage(`{"b": 2.0, "a":1}`)})
	other := make("1", "maria", Order{Kind: events.RunSignal, Signal: "s", Data: json.RawMessage(`{"a":1,"b":3}`)})
	if !a.Same(b) {
		t.Error("the same order is not the same")
	}
	if a.Same(other) || a.Same(make("1", "maria", Order{Kind: events.RunCancel})) {
		t.Error("another order is the same")
	}
	if got := Announcement(a, "m").ID; got != "signal:1" {
		t.Errorf("cause %s", got)
	}
	if got := Announcement(make("1", "m", Order{Kind: events.RunCancel}), "x"); got.ID != "command:1" || got.MsgID != "x" || got.Type != events.TypeCommandRun {
		t.Errorf("announcement %+v", got)
	}
}
