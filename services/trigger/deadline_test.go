package trigger_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// What a start says about its deadline travels with it, also when it is announced
// from its row; one that is none is refused with the place, one that has passed is not.
func TestDeadline_TravelsWithTheStart(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, `
apiVersion: holdfast/v1
kind: Webhook
metadata: {name: dated}
spec: {provider: standard, secrets: [{env: HOOK_SECRET}], agent: anything, deadline: 5h}
---
apiVersion: holdfast/v1
kind: Schedule
metadata: {name: dated}
spec: {cron: 0 2 * * *, agent: anything, deadline: 6h, paused: true}
`)
	r := w.start(t)
	want := map[string]string{}
	hook := r.post("/hooks/dated", `{"a":1}`, signed("d1", `{"a":1}`, time.Now())...)
	accepted(t, hook)
	want[hook.RunID] = "5h0m0s"
	fired := r.api(authn.Operator, "POST", "/v1/schedules/dated/trigger", "")
	accepted(t, fired)
	want[fired.RunID] = "6h0m0s"
	for _, deadline := range []string{"90m", "2d", "2020-01-01T00:00:00Z", ""} {
		body := `{"input":{},"deadline":"` + deadline + `"}`
		a := r.api(authn.Operator, "POST", "/v1/agents/anything/runs", body)
		accepted(t, a)
		want[a.RunID] = deadline
	}
	large := r.api(authn.Operator, "POST", "/v1/agents/anything/runs", `{"input":"`+strings.Repeat("x", 300<<10)+`","deadline":"3h"}`)
	accepted(t, large)
	want[large.RunID] = "3h"
	w.publish(t, "hf.in.orders", `{"agent":"anything","input":1,"deadline":"4h"}`, "Nats-Msg-Id", "with")
	got := map[string]string{}
	for _, s := range w.collect(t, true).exactly(t, 8) {
		if s.Trigger.Kind == "event" {
			want[string(s.RunID)] = "4h"
		}
		got[string(s.RunID)] = s.Deadline
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deadlines by run (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"soon", "-1h", "0s", "400d", strings.Repeat("1", 100)} {
		a := r.api(authn.Operator, "POST", "/v1/agents/anything/runs", `{"deadline":"`+bad+`"}`)
		if a.status != http.StatusUnprocessableEntity || a.Code != trigger.CodeInvalidDeadline || len(a.Errors) != 1 || a.Errors[0].Field != "deadline" {
			t.Errorf("%.20q: %d %s", bad, a.status, a.body)
		}
	}
	if a := r.api(authn.Operator, "POST", "/v1/agents/anything/runs", `{"deadline":7200}`); a.status != http.StatusBadRequest {
		t.Errorf("a number: %d %s", a.status, a.body)
	}
}
