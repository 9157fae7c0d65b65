package runner

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// waiting is a run whose model has asked to wait for n signals s with key "k".
func waiting(t *testing.T, n int, before ...func(*State, *Plan) *State) (*State, *Plan) {
	t.Helper()
	plan, body := purePlan(t)
	s := must(t)(Decide(NewState(testRun, "default"), plan, Input{Cause: "start", Start: &Start{Body: body}}, "w", testTime))
	for _, f := range before {
		s = f(s, plan)
	}
	a := Answer{StopReason: StopTools, Raw: `{}`}
	for i := range n {
		a.Calls = append(a.Calls, ModelCall{ProviderID: fmt.Sprintf("p%d", i), Tool: "await", Args: json.RawMessage(`{"a":"k"}`)})
	}
	return must(t)(DecideAnswer(s, plan, a, Claimed{Epoch: 1}, testTime)), plan
}

func must(t *testing.T) func(Decision, error) *State {
	return func(d Decision, err error) *State {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return d.State
	}
}

func kindsOf(facts []Fact) (kinds []string) {
	for _, f := range facts {
		kinds = append(kinds, f.Kind)
	}
	return kinds
}

func signalInput(sig events.Signal) Input {
	return Input{Cause: "signal:" + sig.ID, Type: events.TypeSignalRun, Signal: &sig, Original: &sig}
}

func timerInput(name string) Input {
	fired := &events.TimerFired{RunID: testRun, Timer: name}
	return Input{Cause: "timer:" + name, Type: events.TypeTimerFired, Timer: fired, Original: fired}
}

func TestSignal_WaitIsARowAndATimer(t *testing.T) {
	t.Parallel()
	s, plan := waiting(t, 1)
	c := s.waits()[0]
	if got := s.Status(); got != events.StatusWaiting {
		t.Errorf("status %s", got)
	}
	if diff := cmp.Diff([]Timer{{Name: "wait-2-0", Due: testTime.Add(time.Hour)}}, s.Timers(testTime)); diff != "" {
		t.Errorf("timers (-want +got):\n%s", diff)
	}
	if got, want := s.Waiting(), `signal s, key "k", until 2026-11-29T03:00:00Z`; got != want {
		t.Errorf("waiting for %q, want %q", got, want)
	}
	if _, ok := Nudge(s, plan, "signal/"+string(c.CallID), 1); ok {
		t.Error("a wait for a signal is asked about again")
	}
	d, err := Decide(s, plan, timerInput("wait-2-0"), "w", testTime.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	r := d.State.Calls[c.CallID].result()
	if want := "signal_timeout: no signal s came within 1h"; r.Text != want || !r.Error || !d.State.OwesModelCall() {
		t.Errorf("the model reads %+v, want %q and the next model call", r, want)
	}
}

func TestSignal_WhichOneIsTaken(t *testing.T) {
	t.Parallel()
	s, plan := waiting(t, 1)
	call := s.waits()[0].CallID
	elsewhere := events.NewCallID(testRun, 2, 7)
	for name, tc := range map[string]struct {
		signal events.Signal
		want   []string
	}{
		"sent to the run":                        {events.Signal{Name: "s"}, []string{events.FactSignalReceived, events.FactSignalTaken}},
		"sent to the run with the wait's key":    {events.Signal{Name: "s", Key: "k"}, []string{events.FactSignalReceived, events.FactSignalTaken}},
		"for this wait":                          {events.Signal{Name: "s", Key: "k", CallID: call}, []string{events.FactSignalReceived, events.FactSignalTaken}},
		"of another name is kept":                {events.Signal{Name: "x"}, []string{events.FactSignalReceived}},
		"with another key is kept":               {events.Signal{Name: "s", Key: "K"}, []string{events.FactSignalReceived}},
		"for another wait is late":               {events.Signal{Name: "s", Key: "k", CallID: elsewhere}, []string{events.FactLateResult}},
		"for this wait with another key is late": {events.Signal{Name: "s", Key: "x", CallID: call}, []string{events.FactLateResult}},
	} {
		tc.signal.ID = name
		d, err := Decide(s, plan, signalInput(tc.signal), "w", testTime)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, kindsOf(d.Facts)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Signals that come before the run waits are kept and taken once each, the
// oldest first, by the calls in their order.
func TestSignal_KeptUntilTheRunWaits(t *testing.T) {
	t.Parallel()
	s, _ := waiting(t, 3, func(s *State, plan *Plan) *State {
		for i := range 2 {
			s = must(t)(Decide(s, plan, signalInput(events.Signal{ID: fmt.Sprint(i), Name: "s", Data: json.RawMessage(fmt.Sprint(i))}), "w", testTime))
		}
		return s
	})
	var got []string
	for _, c := range s.CallsInOrder(0) {
		if c.State == callDone {
			got = append(got, string(c.Done.Result))
		}
	}
	if diff := cmp.Diff([]string{"0", "1"}, got); diff != "" || len(s.waits()) != 1 || s.Signals != nil {
		t.Errorf("results (-want +got):\n%s; %d still wait, %d are kept", diff, len(s.waits()), len(s.Signals))
	}
}

// A pause stops neither the signal nor the clock; an answer that comes while the
// run is paused begins to wait when it goes on.
func TestSignal_Pause(t *testing.T) {
	t.Parallel()
	pause := func(s *State, plan *Plan) *State {
		return must(t)(Decide(s, plan, Input{Cause: "p", What: events.RunPause, Command: &events.Command{ID: "p"}}, "w", testTime))
	}
	s, plan := waiting(t, 1)
	s = pause(s, plan)
	d, err := Decide(s, plan, signalInput(events.Signal{ID: "1", Name: "s"}), "w", testTime)
	if err != nil || len(d.State.waits()) != 0 || d.State.Status() != events.StatusPaused {
		t.Errorf("a signal to a paused run: %v, %d wait, %s", err, len(d.State.waits()), d.State.Status())
	}
	s, plan = waiting(t, 1, pause)
	if len(s.waits()) != 0 || len(s.Timers(testTime)) != 0 {
		t.Error("a held call waits")
	}
	later := testTime.Add(48 * time.Hour)
	s = must(t)(Decide(s, plan, Input{Cause: "r", What: events.RunResume, Command: &events.Command{ID: "r"}}, "w", later))
	if w := s.waits(); len(w) != 1 || !w[0].Wait.Until.Equal(later.Add(time.Hour)) {
		t.Errorf("after the resume %+v", w)
	}
}

func TestSignal_CancelEndsTheWait(t *testing.T) {
	t.Parallel()
	s, plan := waiting(t, 2)
	call := s.waits()[0].CallID
	d, err := Decide(s, plan, Input{Cause: "c", What: events.RunCancel, Command: &events.Command{ID: "c", Principal: "op"}}, "w", testTime)
	if err != nil || d.State.End != events.StatusCancelled || len(d.State.PendingItems())+len(d.State.Timers(testTime)) != 0 {
		t.Fatalf("%v, end %q, pending %v, timers %v", err, d.State.End, d.State.PendingItems(), d.State.Timers(testTime))
	}
	late, err := Decide(d.State, plan, signalInput(events.Signal{ID: "1", Name: "s", Key: "k", CallID: call}), "w", testTime)
	if err != nil || late.Facts[0].Kind != events.FactLateResult || !late.Facts[0].Inbound {
		t.Errorf("a signal after the end: %v, %+v", err, late.Facts)
	}
}

func TestSignal_AKeyThatCannotBeMadeIsTheModelsProblem(t *testing.T) {
	t.Parallel()
	plan, body := purePlan(t)
	s := must(t)(Decide(NewState(testRun, "default"), plan, Input{Cause: "start", Start: &Start{Body: body}}, "w", testTime))
	for _, args := range []string{`{}`, `{"a":""}`, `{"a":null}`, `{"a":[1]}`, `{"a":"` + longText(600) + `"}`} {
		got := must(t)(DecideAnswer(s, plan, Answer{StopReason: StopTools, Raw: `{}`, Calls: []ModelCall{{ProviderID: "p", Tool: "await", Args: json.RawMessage(args)}}}, Claimed{}, testTime))
		c := got.CallsInOrder(0)[0]
		if c.State != callDone || c.Done.Error == nil || c.Done.Error.Code != "signal_key" || !got.OwesModelCall() {
			t.Errorf("%.40s: %s %+v", args, c.State, c.Done)
		}
	}
	got := must(t)(DecideAnswer(s, plan, Answer{StopReason: StopTools, Raw: `{}`, Calls: []ModelCall{{ProviderID: "p", Tool: "await", Args: json.RawMessage(`{"a":9007199254740993.0}`)}}}, Claimed{}, testTime))
	if key := got.waits()[0].Wait.Key; key != "9007199254740993" {
		t.Errorf("key %q lost its digits or its one spelling", key)
	}
}

func longText(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'x'
	}
	return string(b)
}
