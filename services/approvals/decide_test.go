package approvals

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	asked := time.Date(2026, 3, 29, 0, 30, 0, 0, time.UTC)
	expires := asked.Add(time.Hour)
	action := Request{Kind: events.ApprovalAction, State: StatePending, Digest: "sha256:aa", ExpiresAt: expires}
	doubt := Request{Kind: events.ApprovalDoubt, State: StatePending, Digest: "sha256:aa", ExpiresAt: expires}
	ended := func(r Request, state string) Request {
		r.State, r.Decision = state, state
		return r
	}
	kept := func(r Request) Request {
		r.Rule = &events.DecisionRule{AtExpiry: events.AtExpiryKeep}
		return r
	}
	happened := ended(doubt, events.Happened)
	happened.Result = json.RawMessage(`{"id": 9007199254740993}`)

	asksAnything := Request{Kind: events.ApprovalQuestion, State: StatePending, ExpiresAt: expires, Question: &events.Question{Text: "?"}}
	choice := asksAnything
	choice.Question = &events.Question{Text: "?", Choices: []string{"a", "b"}}
	answered := ended(asksAnything, events.Answered)
	answered.Result = json.RawMessage(`9007199254740993`)

	for name, tc := range map[string]struct {
		request Request
		attempt Attempt
		now     time.Time
		want    Outcome
	}{
		"a pending action is approved":                    {action, Attempt{Decision: events.Approve}, asked, Decided},
		"a pending action is rejected":                    {action, Attempt{Decision: events.Reject}, asked, Decided},
		"one nanosecond before the expiry counts":         {action, Attempt{Decision: events.Approve}, expires.Add(-1), Decided},
		"the moment of the expiry is too late":            {action, Attempt{Decision: events.Approve}, expires, TooLate},
		"what is kept can be decided at its expiry":       {kept(action), Attempt{Decision: events.Approve, Digest: "sha256:aa"}, expires, Decided},
		"what is kept can be decided long after":          {kept(action), Attempt{Decision: events.Reject}, expires.AddDate(1, 0, 0), Decided},
		"after the expiry it is too late, swept or not":   {ended(action, events.Expired), Attempt{Decision: events.Approve}, asked, TooLate},
		"the same decision again changes nothing":         {ended(action, events.Approve), Attempt{Decision: events.Approve}, expires.Add(time.Hour), Repeated},
		"a yes after a no has lost":                       {ended(action, events.Reject), Attempt{Decision: events.Approve}, asked, Lost},
		"a no after a yes has lost":                       {ended(action, events.Approve), Attempt{Decision: events.Reject}, asked, Lost},
		"a withdrawn request cannot be decided":           {ended(action, events.Withdrawn), Attempt{Decision: events.Approve}, asked, Gone},
		"a doubt is not approved":                         {doubt, Attempt{Decision: events.Approve}, asked, WrongKind},
		"an action did not happen":                        {action, Attempt{Decision: events.NotHappened}, asked, WrongKind},
		"a doubt is settled":                              {doubt, Attempt{Decision: events.Happened}, asked, Decided},
		"the digest that was shown is the one asked":      {action, Attempt{Decision: events.Approve, Digest: "sha256:aa"}, asked, Decided},
		"another digest than was asked is a mismatch":     {action, Attempt{Decision: events.Approve, Digest: "sha256:bb"}, asked, Mismatch},
		"the same result in another spelling is a repeat": {happened, Attempt{Decision: events.Happened, Result: json.RawMessage(`{"id":9007199254740993}`)}, asked, Repeated},
		"a result that differs in its last digit is not":  {happened, Attempt{Decision: events.Happened, Result: json.RawMessage(`{"id":9007199254740992}`)}, asked, Lost},
		"a question is answered":                          {asksAnything, Attempt{Decision: events.Answered, Result: json.RawMessage(`1`)}, asked, Decided},
		"a question is not approved":                      {asksAnything, Attempt{Decision: events.Approve}, asked, WrongKind},
		"a question is not rejected":                      {asksAnything, Attempt{Decision: events.Reject}, asked, WrongKind},
		"an action is not answered":                       {action, Attempt{Decision: events.Answered, Result: json.RawMessage(`1`)}, asked, WrongKind},
		"an answer that is one of the choices":            {choice, Attempt{Decision: events.Answered, Result: json.RawMessage(`"b"`)}, asked, Decided},
		"an answer that is none of the choices":           {choice, Attempt{Decision: events.Answered, Result: json.RawMessage(`"c"`)}, asked, Unfit},
		"an unfit answer after the expiry is late":        {choice, Attempt{Decision: events.Answered, Result: json.RawMessage(`"c"`)}, expires, TooLate},
		"the same answer in another spelling is a repeat": {answered, Attempt{Decision: events.Answered, Result: json.RawMessage(`9007199254740993.0`)}, asked, Repeated},
		"an answer with another last digit has lost":      {answered, Attempt{Decision: events.Answered, Result: json.RawMessage(`9007199254740992`)}, asked, Lost},
		"a repeat may leave the result out":               {happened, Attempt{Decision: events.Happened}, asked, Repeated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Judge(tc.request, tc.attempt, tc.now); got != tc.want {
				t.Errorf("Judge = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestAttemptCheck(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		attempt Attempt
		wantIn  string // of the error; empty for none
	}{
		"a plain yes":                            {Attempt{Decision: events.Approve, By: "ann"}, ""},
		"a comment of 4,000 emoji":               {Attempt{Decision: events.Reject, By: "ann", Comment: strings.Repeat("🙂", 4000)}, ""},
		"a comment of 4,001 characters":          {Attempt{Decision: events.Reject, By: "ann", Comment: strings.Repeat("x", 4001)}, "at most 4000"},
		"a NUL in the comment":                   {Attempt{Decision: events.Reject, By: "ann", Comment: "a\x00b"}, "NUL"},
		"a comment that is not UTF-8":            {Attempt{Decision: events.Reject, By: "ann", Comment: "\xff"}, "UTF-8"},
		"an unknown decision":                    {Attempt{Decision: "maybe", By: "ann"}, `"maybe"`},
		"expired is nobody's decision":           {Attempt{Decision: events.Expired, By: "ann"}, `"expired"`},
		"a result with a yes":                    {Attempt{Decision: events.Approve, By: "ann", Result: json.RawMessage(`1`)}, "result"},
		"a result that is broken":                {Attempt{Decision: events.Happened, By: "ann", Result: json.RawMessage(`{`)}, "result"},
		"a result with an escaped NUL":           {Attempt{Decision: events.Happened, By: "ann", Result: json.RawMessage(`"\u0000"`)}, "NUL"},
		"a result over the limit":                {Attempt{Decision: events.Happened, By: "ann", Result: json.RawMessage(`"` + strings.Repeat("x", 64<<10) + `"`)}, "bytes"},
		"an answer without a result":             {Attempt{Decision: events.Answered, By: "ann"}, "result"},
		"an answer":                              {Attempt{Decision: events.Answered, By: "ann", Result: json.RawMessage(`"x"`)}, ""},
		"a decision without a principal":         {Attempt{Decision: events.Approve}, "principal"},
		"what did happen, with what it returned": {Attempt{Decision: events.Happened, By: "ann", Result: json.RawMessage(`{"id":1}`)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tc.attempt.Check()
			switch {
			case tc.wantIn == "" && err != nil:
				t.Errorf("Check = %v, want nil", err)
			case tc.wantIn != "" && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tc.wantIn)):
				t.Errorf("Check = %v, want ErrInvalid with %q", err, tc.wantIn)
			}
		})
	}
}

func TestParseDecision(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"approve": events.Approve, "approved": events.Approve, "reject": events.Reject, "rejected": events.Reject,
		"happened": events.Happened, "not_happened": events.NotHappened, "not-happened": events.NotHappened,
		"give_up": events.GiveUp, "give-up": events.GiveUp, "answer": events.Answered, "answered": events.Answered,
	} {
		if got, err := ParseDecision(in); err != nil || got != want {
			t.Errorf("ParseDecision(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", "Approve", "yes", "expired", "withdrawn", "pending"} {
		if got, err := ParseDecision(in); !errors.Is(err, ErrInvalid) {
			t.Errorf("ParseDecision(%q) = %q, %v; want ErrInvalid", in, got, err)
		}
	}
}

func TestConflictNamesWhoWhenAndWhere(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 29, 7, 4, 5, 678e6, time.UTC)
	c := &Conflict{Outcome: Lost, Request: Request{ID: "a1", Decision: events.Reject, DecidedBy: "ben", Door: "api", DecidedAt: at}}
	for _, want := range []string{"rejected", "ben", "2026-11-29T07:04:05.678Z", "api"} {
		if !strings.Contains(c.Error(), want) {
			t.Errorf("Error() = %q, want %q in it", c.Error(), want)
		}
	}
}

func TestAskOf(t *testing.T) {
	t.Parallel()
	run := events.NewRunID()
	call := events.NewCallID(run, 2, 0)
	good := events.AskApproval{
		ApprovalID: events.NewApprovalID(call, "a", 2), Kind: events.ApprovalAction, RunID: run, CallID: call,
		Namespace: "default", Agent: "refund", Tool: "refund", Args: json.RawMessage(`{"amount":12345678901234567890}`),
	}
	a, err := AskOf("ask:x", good)
	if err != nil {
		t.Fatal(err)
	}
	if a.ExpiresAfter != DefaultExpiry || a.ValidFor != DefaultValidity {
		t.Errorf("periods = %s, %s; want the defaults", a.ExpiresAfter, a.ValidFor)
	}
	if string(a.Args) != `{"amount":12345678901234567890}` {
		t.Errorf("args = %s, digits changed", a.Args)
	}
	for name, spoil := range map[string]func(*events.AskApproval){
		"no id":            func(b *events.AskApproval) { b.ApprovalID = "" },
		"an id with a dot": func(b *events.AskApproval) { b.ApprovalID = "a.b" },
		"no run":           func(b *events.AskApproval) { b.RunID = "" },
		"an unknown kind":  func(b *events.AskApproval) { b.Kind = "riddle" },
		"a question without text": func(b *events.AskApproval) {
			b.Kind = events.ApprovalQuestion
			b.Question = &events.Question{Text: " "}
		},
		"a question without one":    func(b *events.AskApproval) { b.Kind = events.ApprovalQuestion },
		"an action with a question": func(b *events.AskApproval) { b.Question = &events.Question{Text: "?"} },
		"NUL in a question": func(b *events.AskApproval) {
			b.Kind = events.ApprovalQuestion
			b.Question = &events.Question{Text: "a\x00"}
		},
		"a schema that is none": func(b *events.AskApproval) {
			b.Kind = events.ApprovalQuestion
			b.Question = &events.Question{Text: "?", Schema: json.RawMessage(`{"type":"no"}`)}
		},
		"more choices than are shown": func(b *events.AskApproval) {
			b.Kind = events.ApprovalQuestion
			b.Question = &events.Question{Text: "?", Choices: make([]string, 51)}
		},
		"no namespace":      func(b *events.AskApproval) { b.Namespace = "" },
		"NUL in a label":    func(b *events.AskApproval) { b.Labels = map[string]string{"a": "b\x00"} },
		"NUL in the text":   func(b *events.AskApproval) { b.Summary = "a\x00" },
		"NUL in arguments":  func(b *events.AskApproval) { b.Args = json.RawMessage(`{"a":"\u0000"}`) },
		"broken arguments":  func(b *events.AskApproval) { b.Args = json.RawMessage(`{`) },
		"a call of no kind": func(b *events.AskApproval) { b.CallID = "*" },
	} {
		bad := good
		spoil(&bad)
		if _, err := AskOf("ask:x", bad); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestPeriod(t *testing.T) {
	t.Parallel()
	for ms, want := range map[int64]time.Duration{
		0: DefaultExpiry, 1500: 1500 * time.Millisecond, -5: 0, 1 << 62: maxPeriod,
	} {
		if got := period(ms, DefaultExpiry); got != want {
			t.Errorf("period(%d) = %s, want %s", ms, got, want)
		}
	}
}
