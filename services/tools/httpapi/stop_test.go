package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/services/tools/httpapi"
)

func (l *ledger) stop(body string) httpapi.Stop {
	l.t.Helper()
	r := l.send(http.MethodPost, "/v1/stops", body)
	var s httpapi.Stop
	if err := json.Unmarshal([]byte(r.body), &s); err != nil || r.HTTP != 200 || !strings.HasPrefix(s.ID, "stop-") {
		l.t.Fatalf("stop %s: %d %s", body, r.HTTP, r.body)
	}
	return s
}

// A program that asks while its tool is stopped is told to come back, also when
// it was given a fence before; what was done and what runs out is as ever.
func TestStop_HoldsPrograms(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	done, given := l.proceed("done", "a"), l.proceed("given", "a", `,"on_doubt":"retry"`)
	want(t, "record", l.record(done.EffectID, done.Fence, `"status":"succeeded","result":7`), 200, "")
	stop := l.stop(`{"scope":"tool","name":"program/act","note":"wrong shop"}`)
	for _, key := range []string{"new", "given"} {
		r := l.begin(key, "a", `,"on_doubt":"retry"`)
		if r.HTTP != 200 || r.Status != tools.OnceHeld || r.Fence != 0 || r.header.Get("Retry-After") != "5" || r.RetryAfter != 5 ||
			!strings.Contains(r.Advice, "held by the stop of ") || !strings.Contains(r.Advice, ": wrong shop") {
			t.Errorf("begin %s: %d %s", key, r.HTTP, r.body)
		}
	}
	if r := l.begin("done", "b"); r.Status != tools.OnceDone || string(r.Result) != "7" {
		t.Errorf("done: %s", r.body)
	}
	l.proceed("other", "a", `,"tool":"other"`)
	l.lapse(given.EffectID) // an act that may have happened is not repeated
	if r := l.begin("given", "b", `,"on_doubt":"retry"`); r.Status != tools.OnceHeld {
		t.Errorf("after the lease: %s", r.body)
	}
	want(t, "an act under way is recorded", l.record(given.EffectID, given.Fence, `"status":"succeeded"`), 200, "")
	want(t, "release", l.send(http.MethodPost, "/v1/stops/"+stop.ID+"/release", `{"note":"mended"}`), 200, "")
	l.proceed("new", "a")
}

// Each stop is kept with who made and who ended it, in its namespace; all is for
// administrators.
func TestStop_RolesAndAudit(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	all := l.stop(`{"scope":"all","note":"fire"}`)
	if again := l.stop(`{"scope":"all","note":"another note"}`); again.ID != all.ID || again.Note != "fire" {
		t.Errorf("a second stop of all: %+v", again)
	}
	l.token = doortest.Token(authn.Operator)
	want(t, "all by an operator", l.send(http.MethodPost, "/v1/stops", `{"scope":"all","note":"n"}`), 403, "forbidden")
	want(t, "release of all by an operator", l.send(http.MethodPost, "/v1/stops/"+all.ID+"/release", `{}`), 403, "forbidden")
	one := l.stop(`{"scope":"agent","name":"pricing","note":"n"}`)
	for _, bad := range []string{`{}`, `{"scope":"all","note":""}`, `{"scope":"tool","note":"n"}`, `{"scope":"agent","name":"a b","note":"n"}`, `{"scope":"run","name":"x","note":"n"}`} {
		want(t, bad, l.send(http.MethodPost, "/v1/stops", bad), 422, "invalid_input")
	}
	want(t, "release", l.send(http.MethodPost, "/v1/stops/"+one.ID+"/release", `{"note":"over"}`), 200, "")
	l.token = doortest.Token(authn.Viewer)
	if _, body := l.raw("/v1/stops/preview?scope=agent&name=pricing", authn.Viewer, "default"); !strings.Contains(string(body), `"runs":0,"waiting":0,"under_way":0,"means":["0 runs of it`) {
		t.Errorf("the preview says %s", body)
	}
	want(t, "a preview of nothing", l.send(http.MethodGet, "/v1/stops/preview?scope=tool", ""), 422, "invalid_input")
	want(t, "stop by a viewer", l.send(http.MethodPost, "/v1/stops", `{"scope":"tool","name":"x","note":"n"}`), 403, "forbidden")
	var page struct {
		Items []httpapi.Stop
		Next  string `json:"next_cursor"`
	}
	read := func(query string) {
		t.Helper()
		page.Items, page.Next = nil, ""
		if err := json.Unmarshal([]byte(l.send(http.MethodGet, "/v1/stops?"+query, "").body), &page); err != nil {
			t.Fatal(err)
		}
	}
	read("limit=1")
	if len(page.Items) != 1 || page.Items[0].ID != one.ID || page.Items[0].EndNote != "over" || page.Items[0].EndedBy == "" || page.Next == "" {
		t.Errorf("the first page: %+v", page)
	}
	read("limit=1&cursor=" + page.Next)
	if len(page.Items) != 1 || page.Items[0].ID != all.ID || page.Next != "" {
		t.Errorf("the second page: %+v", page)
	}
	read("standing=true")
	if len(page.Items) != 1 || page.Items[0].ID != all.ID {
		t.Errorf("what stands: %+v", page)
	}
	l.token = doortest.TokenIn("other", authn.Admin)
	want(t, "release from another namespace", l.send(http.MethodPost, "/v1/stops/"+all.ID+"/release", `{}`), 404, "not_found")
	if read("standing=false"); len(page.Items) != 0 {
		t.Errorf("another namespace sees %+v", page.Items)
	}
	l.proceed("k", "a") // and is not stopped
	if _, err := l.db.Open(t, "holdfast_tools").Exec(context.Background(), `DELETE FROM tools.stops`); err == nil {
		t.Error("the service may delete stops")
	}
}
