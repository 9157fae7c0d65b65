package approvals_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals/postgres"
)

// What is asked, decided, expired and told is counted, and how many requests wait.
func TestMetrics_RequestsDecisionsAndNotices(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.outsiders(newOutside(t))
	yes, late := b.ask(), question(func(a *events.AskApproval) { a.ExpiresAfterMs = 1 })
	b.publish(late, "ask:"+string(late.ApprovalID))
	b.decision(late.ApprovalID)
	for _, decision := range []string{"approve", "approve", "reject"} {
		_, err := b.as("ann").Decide(t.Context(), yes.ApprovalID, client.Decision{Decision: decision})
		if (err != nil) != (decision == "reject") {
			t.Fatalf("%s: %v", decision, err)
		}
	}
	n := events.Notice{Channel: "ops"}
	n.RunID = events.NewRunID()
	n.NoticeID = events.RunNotice(n.RunID, events.NoticeFailed)
	b.tell(n, "")
	b.notice(n.NoticeID, "it is delivered", inState("delivered"))
	wants := []string{
		`holdfast_approvals_requests_total{kind="action"} 2`, `holdfast_approvals_expired_total 1`,
		`holdfast_approvals_decisions_total{door="api",outcome="decided"} 1`, `holdfast_approvals_decisions_total{door="api",outcome="repeated"} 1`,
		`holdfast_approvals_decisions_total{door="api",outcome="lost"} 1`, `holdfast_approvals_notices_total{state="delivered"} 1`,
		`holdfast_approvals_untaken `, `holdfast_approvals_untaken_age_seconds `, // that no run has taken
		`holdfast_approvals_waiting `, `holdfast_approvals_waiting_age_seconds `, // as of the last look
	}
	missing := wants
	for until := time.Now().Add(20 * time.Second); len(missing) > 0 && time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		rec := httptest.NewRecorder()
		b.metrics.MetricsHandler().ServeHTTP(rec, httptest.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, "/metrics", nil))
		missing = nil
		for _, want := range wants {
			line := "\n" + want
			if !strings.HasSuffix(want, " ") { // then the value is part of it
				line += "\n"
			}
			if !strings.Contains("\n"+rec.Body.String(), line) {
				missing = append(missing, want)
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("the meter does not say %q", missing)
	}
	b.ask()
	// The runner here takes nothing: the decision and the expiry are owed to it.
	if w, err := postgres.New(b.admin).Waiting(t.Context()); err != nil || w.Requests != 1 || w.Oldest <= 0 || w.Untaken != 2 || w.Since <= 0 {
		t.Errorf("%+v wait, %v; want one, and two that are not taken", w, err)
	}
	b.exec(`UPDATE approvals.requests SET next_announce_at = NULL`)
	if w, err := postgres.New(b.admin).Waiting(t.Context()); err != nil || w.Untaken != 0 || w.Since != 0 {
		t.Errorf("%+v wait, %v; want none that is not taken", w, err)
	}
}
