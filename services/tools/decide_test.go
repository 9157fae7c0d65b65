package tools

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

const (
	run1  = events.RunID("0198c2a0-0000-7000-8000-000000000001")
	self  = "tools-here-1-aaaaaa"
	other = "tools-there-2-bbbbbb"
)

var (
	noon    = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	call1   = events.NewCallID(run1, 3, 0)
	call2   = events.NewCallID(run1, 9, 1)
	ask1    = events.CallTool{CallID: call1, RunID: run1, Namespace: "default", Tool: "pay", Args: []byte(`{}`), ArgsDigest: "sha256:a", Key: "k"}
	write   = Plan{Class: ClassWrite, Policy: DoubtAsk, Key: "k"}
	retry   = Plan{Class: ClassWrite, Policy: DoubtRetry, Key: "k"}
	reading = Plan{Class: ClassRead, Policy: DoubtRetry, Key: "k"}
	fresh   = Beat{Known: true, Age: 100 * time.Millisecond, FreshFor: time.Minute}
	dead    = Beat{Known: true, Age: 2 * time.Second, FreshFor: time.Minute}
)

func unseen(string) Own { return OwnNothing }

// held is an intent of worker w, whose lease is over.
func held(w string) *Effect {
	return &Effect{ID: "e-1", State: EffectIntent, CallID: call1, ArgsDigest: "sha256:a",
		Claim: Claim{Epoch: 4, AttemptID: "t-1", Worker: w, LeaseUntil: noon.Add(-time.Second), Attempts: 1}}
}

func effect(change func(*Effect)) *Effect {
	e := held(other)
	change(e)
	return e
}

func TestDecide(t *testing.T) {
	t.Parallel()
	open := &Call{ID: call1, Tool: "pay", Namespace: "default", ArgsDigest: "sha256:a", Status: CallOpen}
	answered := *open
	answered.Status = events.CallSucceeded
	attached := ask1
	attached.CallID = call2
	gated := write
	gated.Gated = true
	cases := map[string]struct {
		state State
		plan  Plan
		call  events.CallTool
		own   func(string) Own
		want  Decision // only Do, From.AttemptID, Takeover, Doubted, InDoubt and Answer.Status count
	}{
		"a new call begins":                       {plan: write, want: Decision{Do: DoBegin}},
		"an answered call is answered again":      {state: State{Call: &answered}, plan: write, want: Decision{Do: DoReplay}},
		"a revoked call that never came is final": {state: State{Call: &Call{ID: call1, Status: events.CallRevoked}}, plan: write, want: Decision{Do: DoReplay}},
		"a call id used for something else is rejected": {
			state: State{Call: &Call{ID: call1, Tool: "pay", Namespace: "default", ArgsDigest: "sha256:b", Status: CallOpen}}, plan: write, want: Decision{Do: DoReuse}},
		"a gated call without a yes fails": {plan: gated, want: Decision{Do: DoAnswer, Answer: Answer{Status: events.CallFailed}}},
		"the same key with other arguments is a mismatch": {
			state: State{Effect: effect(func(e *Effect) { e.ArgsDigest = "sha256:b" })}, plan: write, want: Decision{Do: DoAnswer, Answer: Answer{Status: events.CallMismatch}}},
		"a mismatch is one even when the other call failed": {
			state: State{Effect: effect(func(e *Effect) { e.ArgsDigest, e.State = "sha256:b", EffectFailed })}, plan: write, want: Decision{Do: DoAnswer, Answer: Answer{Status: events.CallMismatch}}},
		"a done key gives its stored result": {
			state: State{Effect: effect(func(e *Effect) { e.State = EffectSucceeded })}, plan: write, call: attached, want: Decision{Do: DoAnswer, Answer: Answer{Status: events.CallSucceeded, Replayed: true}}},
		"a failed key is free for a new epoch": {
			state: State{Effect: effect(func(e *Effect) { e.State = EffectFailed })}, plan: write, call: attached, want: Decision{Do: DoBegin, From: Claim{AttemptID: "t-1"}}},
		"an unknown key is answered unknown": {
			state: State{Effect: effect(func(e *Effect) { e.State, e.InDoubt = EffectUnknown, DoubtAsk })}, plan: write, call: attached, want: Decision{Do: DoAnswer, Answer: Answer{Status: events.CallUnknown, Replayed: true}}},
		"a key that is looked up is attached to": {
			state: State{Effect: probing(noon)}, plan: write, call: attached, want: Decision{Do: DoAttach}},
		"a lookup that is due is made": {
			state: State{Call: open, Effect: probing(noon)}, plan: write, want: Decision{Do: DoProbe}},
		"a lookup that is not due is left to its row": {
			state: State{Call: open, Effect: probing(noon.Add(time.Millisecond))}, plan: write, want: Decision{Do: DoRest}},
		"what is looked up is not un-begun when its definition is gone": {
			state: State{Call: open, Effect: probing(noon)}, plan: Plan{Class: ClassWrite, Policy: DoubtAsk, Key: "k", Problem: problem("x", "y")}, want: Decision{Do: DoProbe}},
		"a dead worker's intent is looked up where a lookup is declared": {
			state: State{Effect: held(other), Owner: dead, Self: fresh}, plan: Plan{Class: ClassWrite, Policy: DoubtProbe, Key: "k"}, want: Decision{Do: DoDoubt, From: Claim{AttemptID: "t-1"}, Takeover: true, InDoubt: DoubtProbe}},
		"a busy key is attached to": {
			state: State{Effect: held(other), Owner: fresh, Self: fresh}, plan: write, call: attached, want: Decision{Do: DoAttach}},
		"a live worker is waited for": {
			state: State{Effect: held(other), Owner: fresh, Self: fresh}, plan: write, want: Decision{Do: DoWait}},
		"a worker judged by a process that was late itself is waited for": {
			state: State{Effect: held(other), Owner: dead, Self: Beat{Known: true, Age: time.Second, FreshFor: time.Minute}}, plan: write, want: Decision{Do: DoWait}},
		"a worker judged by a process that is fresh again only now is waited for": {
			state: State{Effect: held(other), Owner: dead, Self: Beat{Known: true, FreshFor: time.Second}}, plan: write, want: Decision{Do: DoWait}},
		"a dead worker whose lease runs is waited for": {
			state: State{Effect: effect(func(e *Effect) { e.Claim.LeaseUntil = noon.Add(time.Millisecond) }), Owner: dead, Self: fresh}, plan: retry, want: Decision{Do: DoWait}},
		"a dead worker's intent is in doubt": {
			state: State{Effect: held(other), Owner: dead, Self: fresh}, plan: write, want: Decision{Do: DoDoubt, From: Claim{AttemptID: "t-1"}, Takeover: true, InDoubt: DoubtAsk}},
		"a worker without a row is dead": {
			state: State{Effect: held(other), Self: fresh}, plan: write, want: Decision{Do: DoDoubt, From: Claim{AttemptID: "t-1"}, Takeover: true, InDoubt: DoubtAsk}},
		"a dead worker's intent fails silently where nobody is asked": {
			state: State{Effect: held(other), Owner: dead, Self: fresh}, plan: Plan{Class: ClassWrite, Policy: DoubtFail, Key: "k"}, want: Decision{Do: DoDoubt, From: Claim{AttemptID: "t-1"}, Takeover: true, InDoubt: DoubtFail}},
		"a dead worker's intent is repeated where the key is honoured": {
			state: State{Effect: held(other), Owner: dead, Self: fresh}, plan: retry, want: Decision{Do: DoBegin, From: Claim{AttemptID: "t-1"}, Takeover: true, Doubted: true}},
		"a call that killed every worker is given to a person": {
			state: State{Effect: effect(func(e *Effect) { e.Claim.Attempts = maxAttempts }), Owner: dead, Self: fresh}, plan: retry, want: Decision{Do: DoDoubt, From: Claim{AttemptID: "t-1"}, Takeover: true, InDoubt: DoubtAsk}},
		"my running intent needs nothing": {
			state: State{Effect: held(self), Owner: fresh, Self: fresh}, plan: write, own: func(string) Own { return OwnRunning }, want: Decision{Do: DoRest}},
		"my intent that has not acted is renewed": {
			state: State{Effect: held(self), Owner: fresh, Self: fresh}, plan: write, own: func(string) Own { return OwnIdle }, want: Decision{Do: DoBegin, From: Claim{AttemptID: "t-1"}}},
		"my intent that may have acted is in doubt": {
			state: State{Effect: held(self), Owner: fresh, Self: fresh}, plan: write, want: Decision{Do: DoDoubt, From: Claim{AttemptID: "t-1"}, InDoubt: DoubtAsk}},
		"a gated call that has begun is in doubt even without its yes": {
			state: State{Call: open, Effect: held(other), Owner: dead, Self: fresh}, plan: gated, want: Decision{Do: DoDoubt, From: Claim{AttemptID: "t-1"}, Takeover: true, InDoubt: DoubtAsk}},
		"a due attempt begins": {
			state: State{Effect: effect(func(e *Effect) { e.Claim = Claim{Epoch: 2, NextAttempt: noon, Doubted: true} })}, plan: retry, want: Decision{Do: DoBegin, Doubted: true}},
		"a soon due attempt is waited for": {
			state: State{Effect: effect(func(e *Effect) { e.Claim = Claim{Epoch: 2, NextAttempt: noon.Add(2 * time.Second)} })}, plan: retry, want: Decision{Do: DoWait}},
		"a far attempt is left to its row": {
			state: State{Effect: effect(func(e *Effect) { e.Claim = Claim{Epoch: 2, NextAttempt: noon.Add(time.Minute)} })}, plan: retry, want: Decision{Do: DoRest}},
		"a read begins without looking at effects": {
			state: State{Effect: held(other), Owner: fresh, Self: fresh}, plan: reading, want: Decision{Do: DoBegin}},
		"a read of a live worker is waited for": {
			state: State{Call: readHeld(other), Owner: fresh, Self: fresh}, plan: reading, want: Decision{Do: DoWait}},
		"a read of a dead worker is simply repeated": {
			state: State{Call: readHeld(other), Owner: dead, Self: fresh}, plan: reading, want: Decision{Do: DoBegin, From: Claim{AttemptID: "t-1"}, Takeover: true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.state.Now = noon
			if tc.call.CallID == "" {
				tc.call = ask1
			}
			if tc.own == nil {
				tc.own = unseen
			}
			d := Decide(tc.state, tc.plan, tc.call, self, tc.own)
			got := Decision{Do: d.Do, From: Claim{AttemptID: d.From.AttemptID}, Takeover: d.Takeover, Doubted: d.Doubted, InDoubt: d.InDoubt,
				Answer: Answer{Status: d.Answer.Status, Replayed: d.Answer.Replayed}}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

// probing is the effect of call1, in doubt and to be looked up at the time.
func probing(at time.Time) *Effect {
	return &Effect{ID: "e-1", CallID: call1, Key: "k", State: EffectUnknown, ArgsDigest: "sha256:a", InDoubt: DoubtProbe,
		Claim: Claim{Epoch: 1, AttemptID: "t-1", NextAttempt: at}}
}

func TestPlan_LookAgain(t *testing.T) {
	t.Parallel()
	p := Plan{Probe: &spec.Probe{Every: spec.Duration(5 * time.Second), GiveUpAfter: spec.Duration(10 * time.Minute)}}
	for name, tc := range map[string]struct {
		probes int
		age    time.Duration
		plan   Plan
		want   time.Duration
		over   bool
	}{
		"the first wait":                   {0, 2 * time.Second, p, 5 * time.Second, false},
		"it doubles":                       {2, time.Minute, p, 20 * time.Second, false},
		"to a minute":                      {1000, time.Minute, p, time.Minute, false},
		"the last look is made at the end": {9, 10*time.Minute - time.Second, p, time.Second, false},
		"then it is over":                  {9, 10 * time.Minute, p, 0, true},
		"without a definition it is over":  {0, 0, Plan{}, 0, true},
	} {
		wait, over := tc.plan.lookAgain(Effect{ProbeSince: noon.Add(-tc.age), Probes: tc.probes}, noon)
		if wait != tc.want || over != tc.over {
			t.Errorf("%s: %v, %v; want %v, %v", name, wait, over, tc.want, tc.over)
		}
	}
}

func readHeld(w string) *Call {
	return &Call{ID: call1, Tool: "pay", Namespace: "default", ArgsDigest: "sha256:a", Status: CallOpen,
		Claim: Claim{Epoch: 1, AttemptID: "t-1", Worker: w, LeaseUntil: noon.Add(-time.Second), Attempts: 1}}
}

// Whatever the state, a write begins only when nothing can be under way or
// have happened, unless the other side honours the key or we know that we have
// not acted.
func TestDecide_NeverRepeatsBlindly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		age := func(label string) time.Duration {
			return time.Duration(rapid.IntRange(0, 4000).Draw(t, label)) * time.Millisecond
		}
		st := State{
			Now:   noon,
			Owner: Beat{Known: rapid.Bool().Draw(t, "owner known"), Age: age("owner age"), FreshFor: time.Hour},
			Self:  Beat{Known: true, Age: age("self age"), FreshFor: age("self fresh for")},
		}
		worker := rapid.SampledFrom([]string{self, other}).Draw(t, "worker")
		e := held(worker)
		e.State = rapid.SampledFrom([]string{EffectIntent, EffectSucceeded, EffectFailed, EffectUnknown}).Draw(t, "state")
		e.Claim.Attempts = rapid.IntRange(0, maxAttempts+1).Draw(t, "attempts")
		e.Claim.LeaseUntil = noon.Add(age("lease") - 2*time.Second)
		e.ArgsDigest = rapid.SampledFrom([]events.Digest{"sha256:a", "sha256:b"}).Draw(t, "args")
		if e.State == EffectIntent && rapid.Bool().Draw(t, "released") {
			e.Claim.AttemptID, e.Claim.Worker = "", ""
			e.Claim.NextAttempt = noon.Add(age("next") - 2*time.Second)
		}
		if rapid.Bool().Draw(t, "seen") {
			st.Effect = e
		}
		plan := Plan{Class: ClassWrite, Key: "k", Policy: rapid.SampledFrom([]string{DoubtRetry, DoubtAsk, DoubtFail}).Draw(t, "policy")}
		c := ask1
		if rapid.Bool().Draw(t, "second call") {
			c.CallID = call2
		}
		own := rapid.SampledFrom([]Own{OwnNothing, OwnRunning, OwnIdle}).Draw(t, "own")
		d := Decide(st, plan, c, self, func(string) Own { return own })

		if d.Do == DoBegin && st.Effect != nil {
			idle := worker == self && own == OwnIdle
			switch {
			case e.ArgsDigest != c.ArgsDigest:
				t.Fatal("began with other arguments")
			case e.State == EffectSucceeded || e.State == EffectUnknown:
				t.Fatalf("began a key that is %s", e.State)
			case e.State == EffectIntent && e.Claim.AttemptID == "" && st.Now.Before(e.Claim.NextAttempt):
				t.Fatal("began before the next attempt is due")
			case e.State == EffectIntent && e.Claim.AttemptID != "" && !idle && plan.Policy != DoubtRetry:
				t.Fatal("repeated an intent that may have happened")
			case e.State == EffectIntent && e.Claim.AttemptID != "" && !idle && !d.Doubted:
				t.Fatal("a repeat forgets that the first may have happened")
			}
		}
		if (d.Do == DoBegin || d.Do == DoDoubt) && d.Takeover != (st.Effect != nil && e.State == EffectIntent && e.Claim.AttemptID != "" && worker == other) {
			t.Fatalf("takeover is %v", d.Takeover)
		}
		if d.Takeover && (st.Owner.Known && st.Owner.Age <= deadAfter || st.Self.Age >= selfFresh || st.Now.Before(e.Claim.LeaseUntil)) {
			t.Fatal("took over from a worker that may live")
		}
	})
}

func TestConclude(t *testing.T) {
	t.Parallel()
	fail := Plan{Class: ClassWrite, Policy: DoubtFail}
	type row struct {
		state   string
		doubt   string
		doubted bool
	}
	again := func(doubted bool) row { return row{state: EffectIntent, doubted: doubted} }
	unknown := func(doubt string) row { return row{EffectUnknown, doubt, true} }
	cases := map[string]struct {
		verdict Verdict
		plan    Plan
		claim   Claim
		want    row
	}{
		"it happened":                              {Happened, write, Claim{Attempts: 1}, row{state: EffectSucceeded}},
		"refused":                                  {Refused, write, Claim{Attempts: 1}, row{state: EffectFailed}},
		"refused where the key is honoured":        {Refused, retry, Claim{Attempts: 1}, row{state: EffectFailed}},
		"refused after an attempt in doubt":        {Refused, retry, Claim{Attempts: 2, Doubted: true}, unknown(DoubtAsk)},
		"nothing was sent":                         {NotSent, write, Claim{Attempts: 1}, again(false)},
		"nothing was ever sent":                    {NotSent, write, Claim{Attempts: maxAttempts}, row{state: EffectFailed}},
		"nothing was sent after a doubt, at last":  {NotSent, retry, Claim{Attempts: maxAttempts, Doubted: true}, unknown(DoubtAsk)},
		"nobody knows, ask":                        {Ambiguous, write, Claim{Attempts: 1}, unknown(DoubtAsk)},
		"nobody knows, fail":                       {Ambiguous, fail, Claim{Attempts: 1}, unknown(DoubtFail)},
		"nobody knows, retry":                      {Ambiguous, retry, Claim{Attempts: 1}, again(true)},
		"nobody knows, retry, at last":             {Ambiguous, retry, Claim{Attempts: maxAttempts}, unknown(DoubtAsk)},
		"a read that was not answered":             {Ambiguous, reading, Claim{Attempts: 1}, again(false)},
		"a read that is never answered":            {Ambiguous, reading, Claim{Attempts: maxAttempts}, row{state: EffectFailed}},
		"a read that is refused":                   {Refused, reading, Claim{Attempts: 1}, row{state: EffectFailed}},
		"an idempotent call repeats with its key":  {Ambiguous, Plan{Class: ClassIdempotent, Policy: DoubtRetry}, Claim{Attempts: 1}, again(true)},
		"a doubt is not forgotten by a later wait": {NotSent, retry, Claim{Attempts: 2, Doubted: true}, again(true)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := Conclude(tc.verdict, tc.plan, tc.claim, problem("x", "y"), 0, time.Time{})
			if got := (row{c.State, c.InDoubt, c.Doubted}); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			if c.State == EffectIntent && c.Wait <= 0 {
				t.Error("another attempt without a wait")
			}
		})
	}
}

func TestPostpone(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	old := write
	old.Retry = Retry{Waits: []time.Duration{time.Second}, Attempts: 3, Age: time.Hour, Since: now.Add(-2 * time.Hour)}
	for name, tc := range map[string]struct {
		plan  Plan
		claim Claim
		want  Conclusion
	}{
		"the last attempt is left":         {write, Claim{Attempts: maxAttempts}, Conclusion{State: EffectIntent, Unasked: true, Wait: time.Minute}},
		"a read":                           {reading, Claim{Attempts: maxAttempts}, Conclusion{State: EffectIntent, Unasked: true, Wait: time.Minute}},
		"a doubt stays, and is none by it": {retry, Claim{Attempts: 2, Doubted: true}, Conclusion{State: EffectIntent, Unasked: true, Doubted: true, Wait: 30 * time.Second}},
		"its time is over":                 {old, Claim{Attempts: 1}, Conclusion{State: EffectFailed}},
	} {
		got := Postpone(tc.plan, tc.claim, nil, 30*time.Second, now)
		if got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestBackoff_NeverEarlierThanTheHint(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		attempts int
		hint     time.Duration
		want     time.Duration
	}{
		{1, 0, 500 * time.Millisecond}, {2, 0, time.Second}, {5, 0, 8 * time.Second}, {50, 0, time.Minute},
		{1, 30 * time.Second, 30 * time.Second}, {9, 30 * time.Second, time.Minute}, {1, 24 * time.Hour, time.Hour}, {1, -time.Second, 500 * time.Millisecond},
	} {
		if got := quickRetry.wait(tc.attempts, tc.hint); got != tc.want {
			t.Errorf("wait(%d, %s) = %s, want %s", tc.attempts, tc.hint, got, tc.want)
		}
	}
}

func TestEffectID_SeparatesItsParts(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, k := range [][3]string{{"a", "b", "c"}, {"a", "b/c", ""}, {"a/b", "c", ""}, {"", "a", "b/c"}, {"b", "b", "c"}, {"a", "x", "c"}} {
		id := EffectID(k[0], k[1], k[2])
		if !events.ValidToken(id) {
			t.Errorf("%q is not a token", id)
		}
		if before, twice := seen[id]; twice {
			t.Errorf("%v and %s have one id", k, before)
		}
		seen[id] = fmt.Sprint(k)
	}
}

func TestCheckCall(t *testing.T) {
	t.Parallel()
	args := []byte(`{"n":9007199254740993}`)
	good := events.CallTool{CallID: call1, RunID: run1, Namespace: "default", Tool: "pay", Key: "k", Args: args, ArgsDigest: events.DigestOf(args)}
	if err := checkCall(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*events.CallTool){
		"another run's call":    func(c *events.CallTool) { c.RunID = "0198c2a0-0000-7000-8000-000000000002" },
		"no key":                func(c *events.CallTool) { c.Key = "" },
		"another digest":        func(c *events.CallTool) { c.Args = []byte(`{"n":9007199254740992}`) },
		"arguments not JSON":    func(c *events.CallTool) { c.Args = []byte(`{"n":`) },
		"an id with a wildcard": func(c *events.CallTool) { c.CallID = events.CallID(string(run1) + "-3-0.>") },
	} {
		c := good
		change(&c)
		if checkCall(c) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
