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

// What a start asks for as its priority travels with it through every door, also when
// it is announced from its row; what is none is refused with the place.
func TestPriority_TravelsWithTheStart(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.apply(t, `
apiVersion: holdfast/v1
kind: Webhook
metadata: {name: ranked}
spec: {provider: standard, secrets: [{env: HOOK_SECRET}], agent: anything, priority: batch}
---
apiVersion: holdfast/v1
kind: Schedule
metadata: {name: ranked}
spec: {cron: 0 2 * * *, agent: anything, priority: interactive, paused: true}
`)
	r := w.start(t)
	want := map[string]string{}
	hook := r.post("/hooks/ranked", `{"a":1}`, signed("p1", `{"a":1}`, time.Now())...)
	accepted(t, hook)
	want[hook.RunID] = "batch"
	fired := r.api(authn.Operator, "POST", "/v1/schedules/ranked/trigger", "")
	accepted(t, fired)
	want[fired.RunID] = "interactive"
	large := `"` + strings.Repeat("x", 300<<10) + `"`
	for body, priority := range map[string]string{`{"input":{},"priority":"batch"}`: "batch", `{"input":{}}`: "", `{"input":` + large + `,"priority":"batch"}`: "batch"} {
		a := r.api(authn.Operator, "POST", "/v1/agents/anything/runs", body)
		accepted(t, a)
		want[a.RunID] = priority
	}
	w.publish(t, "hf.in.orders", `{"agent":"anything","input":1,"priority":"batch"}`, "Nats-Msg-Id", "with")
	got := map[string]string{}
	for _, s := range w.collect(t, true).exactly(t, 6) {
		if s.Trigger.Kind == "event" {
			want[string(s.RunID)] = "batch"
		}
		got[string(s.RunID)] = s.Priority
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("priorities by run (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"urgent", "Batch", strings.Repeat("b", 300)} {
		a := r.api(authn.Operator, "POST", "/v1/agents/anything/runs", `{"priority":"`+bad+`"}`)
		if a.status != http.StatusUnprocessableEntity || a.Code != trigger.CodeInvalidPriority || len(a.Errors) != 1 || a.Errors[0].Field != "priority" {
			t.Errorf("%.20q: %d %s", bad, a.status, a.body)
		}
	}
	if a := r.api(authn.Operator, "POST", "/v1/agents/anything/runs", `{"priority":1}`); a.status != http.StatusBadRequest {
		t.Errorf("a number: %d %s", a.status, a.body)
	}
}
