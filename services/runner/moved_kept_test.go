package runner

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// agentWith is a version of the waiting tests' agent with more lines.
func agentWith(t *testing.T, lines string) *spec.Agent {
	t.Helper()
	docs, err := spec.Parse("t.yaml", []byte("apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: a}\nspec:\n  model: m\n  instructions: i\n  tools: [sleep]\n  "+lines))
	if err != nil {
		t.Fatal(err)
	}
	return docs[0].Agent
}

var anyClaim = Claimed{Worker: "w", Epoch: 1}

// crowded is a run that has said so much that its next call is one for a summary.
func crowded(t *testing.T, bound bool) (*State, *Plan) {
	t.Helper()
	st, p := waiter(t, nil)
	p.Agent, p.ModelName = agentWith(t, "context: {compactAt: 1000, keep: 1}"), "m"
	for n := 0; st.Compacting == nil; n++ {
		if n == 4 {
			t.Fatal("nothing is shortened")
		}
		a := Answer{StopReason: StopTools, Bound: bound && n == 0, Raw: `{"text":"` + strings.Repeat("so ", 1500) + `"}`, Usage: events.Usage{InputTokens: int64(2000 * (n + 1)), OutputTokens: 100},
			Calls: []ModelCall{{Tool: "nothing", ProviderID: fmt.Sprint("p", n), Args: json.RawMessage(`{}`)}}}
		st = must(t)(DecideAnswer(st, p, a, anyClaim, testTime))
	}
	return st, p
}

func nextOf(t *testing.T, st *State, p *Plan) Request {
	t.Helper()
	r, err := NextRequest(st, p, 1)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A summary that is being written is the old version's, and the run moves behind it;
// one that nobody writes yet is asked for under the new one. Either way it stands for
// the conversation, which begins as it did.
func TestMigrate_WithASummary(t *testing.T) {
	t.Parallel()
	summary := Answer{StopReason: StopEnd, Text: "all of it", Raw: `{}`}
	for _, busy := range []bool{false, true} {
		st, p := crowded(t, false)
		first := nextOf(t, st, p).Entries[0].User
		m := moveTo(t, p, st, 1, nil)
		in := m.input()
		in.Busy = busy
		d, err := Decide(st, p, in, "w", testTime)
		if err != nil {
			t.Fatal(err)
		}
		now := *d.after(p)
		if busy {
			now.Next = m.Plan
		}
		if moved := d.State.Moved > 0; moved == busy || !d.State.OwesModelCall() {
			t.Fatalf("busy=%t: the order made %v", busy, kindsOf(d.Facts))
		}
		if r := nextOf(t, d.State, &now); !r.Summary || r.System != map[bool]string{true: "i", false: "version 1"}[busy] {
			t.Errorf("busy=%t: the summary is asked for with %q (%t)", busy, r.System, r.Summary)
		}
		if d, err = DecideSummary(d.State, &now, summary, anyClaim, testTime); err != nil {
			t.Fatal(err)
		}
		want := []string{events.FactContextCompacted}
		if busy {
			want = append(want, events.FactMigrated)
		}
		if !cmp.Equal(kindsOf(d.Facts), want) {
			t.Errorf("busy=%t: the summary made %v, want %v", busy, kindsOf(d.Facts), want)
		}
		r := nextOf(t, d.State, d.after(&now))
		if r.Summary || r.System != "version 1" || r.Entries[0].User == first || !strings.HasPrefix(r.Entries[0].User, first) || !strings.Contains(r.Entries[0].User, "all of it") || len(r.Entries) > 4 {
			t.Errorf("busy=%t: %d entries under %q, the first is %.200q", busy, len(r.Entries), r.System, r.Entries[0].User)
		}
	}
}

// What only the old model can take back forbids a move for as long as requests have it.
func TestMigrate_ASummaryFreesTheModel(t *testing.T) {
	t.Parallel()
	st, p := crowded(t, true)
	other := func(n int) *Move {
		return moveTo(t, p, st, n, func(_ *spec.Agent, next *Plan) { next.Model.Model = "y" })
	}
	d, err := Decide(st, p, other(1).input(), "w", testTime)
	if err != nil || refusedWith(t, d) != events.MigrateModel {
		t.Fatalf("made %v (%v)", kindsOf(d.Facts), err)
	}
	st = must(t)(DecideSummary(d.State, p, Answer{StopReason: StopEnd, Text: "all of it", Raw: `{}`}, anyClaim, testTime))
	if _, _, kinds := ordered(t, st, p, other(2)); !cmp.Equal(kinds, []string{events.FactMigrationOrdered, events.FactMigrated}) {
		t.Errorf("behind the summary the order made %v", kinds)
	}
}

// The next answer is judged by the new version's output, with the repairs that were used
// up counting on; nothing that was said before is judged again, and tools can be called.
func TestMigrate_WhileTheOutputIsCorrected(t *testing.T) {
	t.Parallel()
	answer := func(text string) Answer { return Answer{StopReason: StopEnd, Text: text, Raw: `{}`} }
	output := func(member string, repairs int) string {
		return fmt.Sprintf("output: {schema: {type: object, required: [%s]}, repairs: %d}", member, repairs)
	}
	for name, tc := range map[string]struct {
		lines, text string
		want        []string
	}{
		"what fits the new one":  {output("fee", 2), `{"fee":1}`, []string{events.FactModelAnswered, events.FactCompleted}},
		"what fitted the old":    {output("fee", 2), `{"price":1}`, []string{events.FactModelAnswered, events.FactOutputRejected}},
		"fewer repairs":          {output("fee", 1), `{"price":1}`, []string{events.FactModelAnswered, events.FactOutputRejected, events.FactFailed}},
		"no output":              {"maxTokens: 100", "any text", []string{events.FactModelAnswered, events.FactCompleted}},
		"a tool is called again": {output("fee", 2), "", []string{events.FactModelAnswered}},
	} {
		t.Run(name, func(t *testing.T) {
			st, p := waiter(t, nil)
			p.Agent = agentWith(t, output("price", 2))
			d, err := DecideAnswer(st, p, answer("cheap"), anyClaim, testTime)
			if want := []string{events.FactModelAnswered, events.FactOutputRejected}; err != nil || !cmp.Equal(kindsOf(d.Facts), want) {
				t.Fatalf("made %v (%v)", kindsOf(d.Facts), err)
			}
			m := moveTo(t, p, d.State, 1, func(a *spec.Agent, _ *Plan) { *a = *agentWith(t, tc.lines) })
			st, p, kinds := ordered(t, d.State, p, m)
			if want := []string{events.FactMigrationOrdered, events.FactMigrated}; !cmp.Equal(kinds, want) || !st.OwesModelCall() {
				t.Fatalf("the order made %v", kinds)
			}
			if e := nextOf(t, st, p).Entries; !strings.Contains(e[len(e)-1].User, "was not accepted") {
				t.Errorf("the model reads %q", e[len(e)-1].User)
			}
			a := answer(tc.text)
			if tc.text == "" {
				a = calls(`sleep {"for":"1h"}`)
			}
			a.Messages = nextOf(t, st, p).Messages
			if d, err = DecideAnswer(st, p, a, anyClaim, testTime); err != nil || !cmp.Equal(kindsOf(d.Facts)[:len(tc.want)], tc.want) {
				t.Errorf("made %v (%v), want %v", kindsOf(d.Facts), err, tc.want)
			}
			if tc.text == "" && d.State.CallsInOrder(1)[0].State != callSleep {
				t.Errorf("the call is %s", d.State.CallsInOrder(1)[0].State)
			}
		})
	}
}

// The deadline is the start's, whatever the new version says, and an order is no way
// round one that has passed.
func TestMigrate_TheDeadlineStays(t *testing.T) {
	t.Parallel()
	sooner := func(a *spec.Agent, _ *Plan) { *a = *agentWith(t, "deadline: 1m") }
	p, st := dated(t)
	was := *st.Started.Deadline
	moved, with, kinds := ordered(t, st, p, moveTo(t, p, st, 1, sooner))
	if want := []string{events.FactMigrationOrdered, events.FactMigrated}; !cmp.Equal(kinds, want) || moved.Started.Deadline == nil || *moved.Started.Deadline != was {
		t.Fatalf("made %v, and the deadline is %v", kinds, moved.Started.Deadline)
	}
	d, err := Decide(moved, with, Input{Cause: "t", Timer: &events.TimerFired{RunID: testRun, Timer: deadlineTimer}}, "w", was.At)
	if want := []string{events.FactTimerFired, events.FactDeadline, events.FactExpired}; err != nil || !cmp.Equal(kindsOf(d.Facts), want) {
		t.Errorf("behind it: %v (%v)", kindsOf(d.Facts), err)
	}
	// Too late to be ordered, and too late to be carried out.
	d, err = Decide(st, p, moveTo(t, p, st, 1, sooner).input(), "w", was.At)
	if err != nil || refusedWith(t, d) != events.MigrateCancelling || d.State.End != events.StatusExpired || d.State.Moved != 0 {
		t.Errorf("ordered behind the deadline: %v (%v)", kindsOf(d.Facts), err)
	}
	open := must(t)(DecideAnswer(st, p, calls(`change {"n":1}`), anyClaim, testTime))
	waits := must(t)(Decide(open, p, moveTo(t, p, open, 1, sooner).input(), "w", testTime))
	if waits.Moving == nil {
		t.Fatal("the order does not wait for the open call")
	}
	d, err = Decide(waits, p, Input{Cause: "t", Timer: &events.TimerFired{RunID: testRun, Timer: deadlineTimer}}, "w", was.At)
	if err != nil || refusedWith(t, d) != events.MigrateEnded || d.State.End != events.StatusExpired || d.State.Moved != 0 {
		t.Errorf("waited behind the deadline: %v (%v)", kindsOf(d.Facts), err)
	}
}

// A run that stands in a queue is moved there: its keys, its place and the queue are
// those of the start, and what it begins with is the new version.
func TestMigrate_InAQueueKeepsItsPlace(t *testing.T) {
	t.Parallel()
	st, p, _ := keyed(t, inLine, time.Hour)
	key := st.Started.Concurrency[0]
	m := moveTo(t, p, st, 1, func(a *spec.Agent, _ *Plan) {
		*a = *agentWith(t, `concurrency: [{key: '"other"', max: 9}]`)
		a.Instructions = "version 1"
	})
	st, p, kinds := ordered(t, st, p, m)
	if want := []string{events.FactMigrationOrdered, events.FactMigrated}; !cmp.Equal(kinds, want) || st.Status() != events.StatusQueued || st.OwesModelCall() || len(st.Started.Concurrency) != 1 || st.Started.Concurrency[0] != key {
		t.Fatalf("made %v; it is %s under %+v", kinds, st.Status(), st.Started.Concurrency)
	}
	if w := st.Waiting(); !strings.Contains(w, "3 runs waited before it") {
		t.Errorf("waiting: %s", w)
	}
	st = must(t)(Decide(st, p, Input{Cause: "timer:slots", Timer: &events.TimerFired{Timer: slotsTimer}}, "w", testTime))
	if r := nextOf(t, st, p); !st.OwesModelCall() || r.System != "version 1" {
		t.Errorf("with its place it is %s and asks under %q", st.Status(), r.System)
	}
}

// An order that found the run claimed is carried out by whoever has the claim next,
// before the model is asked, and not beside anything that it has to wait for.
func TestMigrate_BeforeACallThatWasNotMade(t *testing.T) {
	t.Parallel()
	st, p := waiter(t, nil)
	m := moveTo(t, p, st, 1, nil)
	in := m.input()
	in.Busy = true
	st = must(t)(Decide(st, p, in, "w", testTime))
	with := *p
	with.Next = m.Plan
	d, err := DecideMove(st, &with, Claimed{Cause: "step", Worker: "w2", Epoch: 2}, testTime)
	if want := []string{events.FactMigrated}; err != nil || !cmp.Equal(kindsOf(d.Facts), want) || d.after(&with) != m.Plan || !d.State.OwesModelCall() || d.Facts[0].Cause != "step" || d.Facts[0].Inbound {
		t.Fatalf("made %v (%v)", kindsOf(d.Facts), err)
	}
	open := must(t)(DecideAnswer(st, &with, calls(`sleep {"for":"1h"}`), anyClaim, testTime))
	paused := must(t)(Decide(st, p, Input{Cause: "pause", What: events.RunPause, Busy: true, Command: &events.Command{ID: "p"}}, "w", testTime))
	for name, s := range map[string]*State{"an open call": open, "a pause": paused, "no order": d.State} {
		if d, err := DecideMove(s, &with, anyClaim, testTime); err != nil || len(d.Facts) != 0 {
			t.Errorf("%s: made %v (%v)", name, kindsOf(d.Facts), err)
		}
	}
}
