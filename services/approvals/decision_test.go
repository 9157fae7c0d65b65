package approvals_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

var (
	yes = client.Decision{Decision: "approve"}
	no  = client.Decision{Decision: "reject"}
)

func TestAskedDecidedTold(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.ask(func(a *events.AskApproval) { a.ValidForMs = time.Hour.Milliseconds() })
	seen := b.show(a.ApprovalID)
	if string(seen.Args) != string(a.Args) || seen.Digest != a.Digest || seen.Summary != a.Summary {
		t.Errorf("shown %s %s %q, want what was asked", seen.Args, seen.Digest, seen.Summary)
	}
	got, err := b.as("ann").Decide(t.Context(), a.ApprovalID, client.Decision{Decision: "approve", Comment: "fine", Digest: seen.Digest})
	if err != nil {
		t.Fatal(err)
	}
	if got.State != events.Approve || got.DecidedBy != "ann" || got.Door != "api" || got.Repeated {
		t.Errorf("decided: %+v", got)
	}
	want := events.ApprovalDecision{
		ApprovalID: a.ApprovalID, Kind: a.Kind, RunID: a.RunID, CallID: a.CallID, Decision: events.Approve,
		Digest: a.Digest, By: "ann", Comment: "fine", DecidedAt: got.DecidedAt, ValidUntil: got.DecidedAt.Add(time.Hour),
	}
	if diff := cmp.Diff(want, b.decision(a.ApprovalID)); diff != "" {
		t.Errorf("decision (-want +got)\n%s", diff)
	}
	m := b.told(a.ApprovalID)[0]
	if m.Subject != events.RunSubject(a.RunID, events.RunApprovalDecided) || m.Type != events.TypeApprovalDecided || m.Namespace != "default" {
		t.Errorf("envelope = %+v", m.Message)
	}
}

func TestCaseE01_OneOfTwentyParallelDecisionsWins(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.ask()
	type answer struct {
		who, want string
		got       client.Approval
		err       error
	}
	answers := make([]answer, 20)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			n := answer{who: "ann", want: events.Approve}
			d := yes
			if i%2 == 1 {
				n.who, n.want, d = "ben", events.Reject, no
			}
			n.got, n.err = b.as(n.who).Decide(t.Context(), a.ApprovalID, d)
			answers[i] = n
		})
	}
	wg.Wait()
	final := b.show(a.ApprovalID)
	first := 0
	for _, n := range answers {
		if n.want == final.State {
			if n.err != nil {
				t.Errorf("%s decided %s as the winner did and got %v", n.who, n.want, n.err)
			} else if !n.got.Repeated {
				first++
			}
			if !n.got.DecidedAt.Equal(final.DecidedAt) {
				t.Errorf("%s was shown another decision: %+v", n.who, n.got)
			}
			continue
		}
		e, ok := errors.AsType[*client.Error](n.err)
		if !ok || e.Status != http.StatusConflict || e.Code != "already_decided" {
			t.Errorf("%s lost and got %v, want 409 already_decided", n.who, n.err)
			continue
		}
		for _, want := range []string{final.State, final.DecidedBy, final.DecidedAt.Format("2006-01-02T15:04:05.000Z"), "api"} {
			if !strings.Contains(e.Detail, want) {
				t.Errorf("the loser is told %q, want %q in it", e.Detail, want)
			}
		}
	}
	if first != 1 {
		t.Errorf("%d decisions say they were the first, want 1", first)
	}
	if d := b.decision(a.ApprovalID); d.Decision != final.State || d.By != final.DecidedBy {
		t.Errorf("the runner is told %s by %s, the record says %s by %s", d.Decision, d.By, final.State, final.DecidedBy)
	}
	for outcome, want := range map[string]int{"decided": 1, "repeated": 9, "lost": 10} {
		if got := b.count("SELECT count(*) FROM approvals.decisions WHERE approval_id = $1 AND outcome = $2", a.ApprovalID, outcome); got != want {
			t.Errorf("audit has %d attempts with outcome %s, want %d", got, outcome, want)
		}
	}
	if n := len(b.told(a.ApprovalID)); n != 1 {
		t.Errorf("the runner is told %d times, want 1", n)
	}
}

func TestCaseE01_DoubleClickAnswersTheStoredDecision(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.ask()
	first, err := b.as("ann").Decide(t.Context(), a.ApprovalID, client.Decision{Decision: "approve", Comment: "first"})
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"ann", "ben"} {
		again, err := b.as(who).Decide(t.Context(), a.ApprovalID, client.Decision{Decision: "approved", Comment: "second"})
		if err != nil {
			t.Fatalf("%s: %v", who, err)
		}
		if !again.Repeated || again.DecidedBy != "ann" || again.Comment != "first" || !again.DecidedAt.Equal(first.DecidedAt) {
			t.Errorf("%s is shown %+v, want the first decision", who, again)
		}
	}
	b.decision(a.ApprovalID)
	if n := len(b.told(a.ApprovalID)); n != 1 {
		t.Errorf("the runner is told %d times, want 1", n)
	}
}

func TestCaseE02_ReadingNeverDecides(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.ask()
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
		for _, path := range []string{"", "/decide"} {
			for range 5 {
				req, err := http.NewRequestWithContext(t.Context(), method, b.url+"/v1/approvals/"+string(a.ApprovalID)+path, strings.NewReader(`{"decision":"approve"}`))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer ann")
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
			}
		}
	}
	if s := b.show(a.ApprovalID).State; s != approvals.StatePending {
		t.Fatalf("state is %s after reading, want pending", s)
	}
	if _, err := b.as("ann").Decide(t.Context(), a.ApprovalID, yes); err != nil {
		t.Errorf("the person's own click: %v", err)
	}
}

func TestDoubts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.ask(doubt)
	if _, err := b.as("ann").Decide(t.Context(), a.ApprovalID, yes); client.StatusOf(err) != http.StatusUnprocessableEntity {
		t.Errorf("approving a doubt = %v, want 422", err)
	}
	result := []byte(`{"charge":12345678901234567890}`)
	got, err := b.as("ann").Decide(t.Context(), a.ApprovalID, client.Decision{Decision: events.Happened, Result: result})
	if err != nil || got.State != events.Happened {
		t.Fatalf("decide = %+v, %v", got, err)
	}
	if d := b.decision(a.ApprovalID); string(d.Result) != string(result) || d.Decision != events.Happened {
		t.Errorf("the runner is told %s with %s", d.Decision, d.Result)
	}
	for _, verdict := range []string{events.NotHappened, events.GiveUp} {
		a := b.ask(doubt)
		if _, err := b.as("ann").Decide(t.Context(), a.ApprovalID, client.Decision{Decision: verdict}); err != nil {
			t.Fatal(err)
		}
		if d := b.decision(a.ApprovalID); d.Decision != verdict {
			t.Errorf("the runner is told %s, want %s", d.Decision, verdict)
		}
	}
}
