package httpapi_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/services/console/httpapi"
)

func TestRun_ShowsItsCallback(t *testing.T) {
	t.Parallel()
	r := setup(t)
	const address = "https://receiver.example/in?a=1"
	id := r.accept("default", "shop", `{}`)
	shown := func() *httpapi.Callback {
		t.Helper()
		return get[httpapi.Run](r, "GET", "/v1/runs/"+string(id), authn.Viewer, "").Callback
	}
	if c := shown(); c != nil {
		t.Errorf("a run without a callback shows %+v", c)
	}
	r.exec(`UPDATE trigger.deliveries SET callback = $2 WHERE run_id = $1`, id, address)
	if diff := cmp.Diff(&httpapi.Callback{URL: address, State: "owed"}, shown()); diff != "" {
		t.Errorf("before a runner has it (-want +got):\n%s", diff)
	}
	r.take("default", id, "shop", `{}`)
	r.exec(`UPDATE runner.runs SET callback = $2 WHERE run_id = $1`, id, address)
	r.step(id, "completed", false)
	if diff := cmp.Diff(&httpapi.Callback{URL: address, State: "owed"}, shown()); diff != "" {
		t.Errorf("ended (-want +got):\n%s", diff)
	}

	r.exec(`INSERT INTO tools.effects (effect_id, namespace, tool, key, state, epoch, call_id, run_id, args, args_digest, attempts, next_attempt_at, error)
		VALUES ('e-1', 'default', 'holdfast.callback', 'k', 'intent', 2, $1 || '-2-0', $1, '{}', 'd', 2, '2026-11-29T02:00:00Z', '{"code":"http_500","message":"HTTP 500"}')`, id)
	r.exec(`INSERT INTO tools.calls (call_id, run_id, namespace, tool, tool_digest, pool, args, args_digest, minted_key, key, status, effect_id)
		VALUES ($1 || '-2-0', $1, 'default', 'holdfast.callback', 'd', 'callbacks', '{}', 'd', 'k', 'k', 'open', 'e-1')`, id)
	r.exec(`INSERT INTO tools.receipts (effect_id, attempt_id, epoch, worker, late, body) VALUES ('e-1', 't-1', 1, 'w', false, '{"error":"HTTP 500"}')`)
	c := shown()
	if c == nil || c.State != "retrying" || c.Attempts != 2 || c.NextAttempt == nil || c.NextAttempt.Hour() != 2 || c.LastError != "HTTP 500" {
		t.Errorf("after two attempts: %+v", c)
	}
	r.exec(`UPDATE tools.effects SET error = NULL, next_attempt_at = NULL, attempt_id = 't-2', worker = 'w'`) // the third is being made
	if c := shown(); c == nil || c.State != "retrying" || c.LastError != "HTTP 500" {
		t.Errorf("in the third attempt: %+v", c)
	}
	r.exec(`UPDATE tools.effects SET state = 'succeeded', attempts = 3`)
	r.exec(`UPDATE tools.calls SET status = 'succeeded'`)
	if diff := cmp.Diff(&httpapi.Callback{URL: address, State: "delivered", Attempts: 3}, shown()); diff != "" {
		t.Errorf("delivered (-want +got):\n%s", diff)
	}
	for status, state := range map[string]string{"failed": "failed", "unknown": "failed"} {
		r.exec(`UPDATE tools.calls SET status = $1, error = '{"code":"http_410","message":"HTTP 410 Gone"}'`, status)
		if c := shown(); c == nil || c.State != state || c.LastError != "HTTP 410 Gone" {
			t.Errorf("%s: %+v", status, c)
		}
	}

	if list := get[door.Page[httpapi.Run]](r, "GET", "/v1/runs", authn.Viewer, ""); len(list.Items) != 1 || list.Items[0].Callback != nil {
		t.Errorf("list: %+v", list)
	}
	if status, _, raw := r.do("GET", "/v1/runs/"+string(id), doortest.TokenIn("other", authn.Admin), ""); status != 404 || strings.Contains(raw, "receiver") {
		t.Errorf("another namespace: %d %s", status, raw)
	}
}
