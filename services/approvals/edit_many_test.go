package approvals_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// Each of many may have arguments of its own, confirmed by a digest of their own.
func TestCaseE05_EditsOfManyEachByItself(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item := func(args string, digest events.Digest) client.ItemDecision {
		return client.ItemDecision{ID: b.ask(refund).ApprovalID, Args: json.RawMessage(args), Digest: digest}
	}
	const makes60 = `{"amount":60,"order":1234567890123456789}`
	many := client.ManyDecisions{Decision: "approve", Items: []client.ItemDecision{
		item(makes50, bindRefund(makes50)),
		item(makes60, bindRefund(makes60)),
		item(makes50, bindRefund(makes60)),
		item(`{"amount":"50","order":1}`, bindRefund(makes50)),
		item("", bindRefund(asked500)),
		item(makes50, bindRefund(asked500)),
	}}
	got, err := b.as("ann").DecideMany(t.Context(), many)
	if err != nil || got.Decided != 3 {
		t.Fatalf("%+v, %v; want 3 decided", got, err)
	}
	for i, want := range []string{makes50, makes60, "409 digest_mismatch", "422 unfit_answer", asked500, "409 digest_mismatch"} {
		r, id := got.Results[i], many.Items[i].ID
		if r.Status != 200 {
			if s := fmt.Sprint(r.Status, " ", r.Code); s != want || b.show(id).State != approvals.StatePending {
				t.Errorf("item %d: %+v, want %s and that it waits", i, r, want)
			}
			continue
		}
		told := b.decision(id)
		ran := asked500
		if told.Args != nil {
			ran = string(told.Args)
		}
		if ran != want || told.Digest != bindRefund(want) {
			t.Errorf("item %d runs %s, want %s", i, ran, want)
		}
	}
	if again, err := b.as("ann").DecideMany(t.Context(), many); err != nil || again.Decided != 3 || !again.Results[0].Repeated {
		t.Errorf("again: %+v, %v", again, err)
	}
	many.Items = many.Items[:1]
	many.Items[0].Decision = "reject"
	if _, err := b.as("ann").DecideMany(t.Context(), many); client.StatusOf(err) != 422 {
		t.Errorf("a no with arguments: %v", err)
	}
}
