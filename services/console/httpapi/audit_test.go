package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/audit"
	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/services/console/httpapi"
	"github.com/holdfast-run/holdfast/services/console/postgres"
)

// Acts at the doors are rows that a page, the API and nobody of another namespace reads;
// no role changes one; what links and Slack did stands among them; old rows go.
func TestAudit_WhoDidWhat(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool := db.Open(t, "holdfast_console")
	store := postgres.New(pool)
	d := door.New(door.Config{Title: "console", Verifier: doortest.Verifier(), Audit: audit.New(pool), Log: bustest.Log(t)})
	httpapi.Register(d, console.New(console.Config{Store: store}))
	srv := httptest.NewServer(d.Handler())
	t.Cleanup(srv.Close)
	r := &rig{t: t, url: srv.URL, db: db.Pool, door: d}
	secret := "hunter2-in-a-body"
	evil := `<script>alert(1)</script>`
	admin, operator := doortest.Token(authn.Admin), doortest.Token(authn.Operator)
	r.do("POST", "/v1/tokens", admin, `{"name":"x","role":"viewer","groups":["`+secret+`!"]}`, "Content-Type", "application/json")
	r.do("POST", "/v1/tokens", operator, `{"name":"x","role":"admin"}`, "Content-Type", "application/json")
	r.do("POST", "/v1/runs/"+idOf(1)+"/cancel", operator, `{"reason":"`+evil+`"}`, "Content-Type", "application/json", "User-Agent", "holdfast-client")
	r.do("POST", "/ui/runs/delete", "", "id="+idOf(2)+"&id="+idOf(3)+"&reason=old", "Cookie", door.SessionCookie+"="+operator, "Sec-Fetch-Site", "same-origin", "Content-Type", "application/x-www-form-urlencoded")
	r.do("GET", "/v1/runs", admin, "")
	r.do("DELETE", "/v1/tokens/"+idOf(9), doortest.TokenIn("other", authn.Admin), "")
	r.exec(`SELECT approvals.audit_append('default', 'decided', 'ap-1', 'run-1', 'ann', 'slack', '{"decision":"approve","comment":"fine","outcome":"decided"}')`)
	r.exec(`SELECT approvals.audit_append('default', 'decided', 'ap-2', 'run-1', 'ann', 'api', '{"decision":"approve"}')`)

	list := func(query string) (out []string) {
		t.Helper()
		status, _, raw := r.do("GET", "/v1/audit?"+query, operator, "")
		var page struct{ Items []httpapi.Act }
		if err := json.Unmarshal([]byte(raw), &page); status != 200 || err != nil {
			t.Fatalf("%s: %d %s", query, status, raw)
		}
		if strings.Contains(raw, secret) {
			t.Error("a body is in the audit")
		}
		for _, a := range page.Items {
			out = append(out, strings.Join([]string{a.Actor, a.Door, a.Action, a.Target, a.Outcome, a.Reason}, "|"))
		}
		return out
	}
	want := []string{
		"ann|slack|decided approve|ap-1|done|fine",
		"operator|page|POST /ui/runs/delete|" + idOf(2) + " " + idOf(3) + "|done|old",
		"operator|client|run-cancel|" + idOf(1) + "|refused|" + evil,
		"operator|api|create-token||refused|",
		"admin|api|create-token||refused|",
	}
	if got := list(""); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the audit:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for query, n := range map[string]int{"actor=operator": 3, "actor=ann": 1, "action=token": 2, "action=%25": 0, "target=" + idOf(1): 1, "door=client": 1, "outcome=done": 2, "outcome=unknown": 0, "since=2100-01-01T00:00:00Z": 0, "until=2000-01-01T00:00:00Z": 0} {
		if got := list(query); len(got) != n {
			t.Errorf("%s finds %d, want %d: %v", query, len(got), n, got)
		}
	}
	// Page by page it is the same.
	var paged []string
	for cursor := ""; ; {
		_, _, raw := r.do("GET", "/v1/audit?limit=2&cursor="+url.QueryEscape(cursor), operator, "")
		var page door.Page[httpapi.Act]
		if err := json.Unmarshal([]byte(raw), &page); err != nil {
			t.Fatal(err)
		}
		for _, a := range page.Items {
			paged = append(paged, a.ID)
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if len(paged) != len(want) {
		t.Errorf("by pages there are %d acts, want %d", len(paged), len(want))
	}
	for query, status := range map[string]int{"door=nowhere": 422, "outcome=x": 422, "cursor=x": 400, "since=yesterday": 422} {
		if got, _, _ := r.do("GET", "/v1/audit?"+query, operator, ""); got != status {
			t.Errorf("%s: %d, want %d", query, got, status)
		}
	}
	// The page: escaped, filtered, for operators.
	if status, _, page := r.do("GET", "/ui/audit?since=2020-01-01", operator, ""); status != 200 || strings.Contains(page, "<script>") || !strings.Contains(page, "&lt;script&gt;") || !strings.Contains(page, "create-token") {
		t.Errorf("the page: %d\n%s", status, page)
	}
	for query, want := range map[string]int{"since=never": 400, "door=nowhere": 400, "outcome=x": 400, "cursor=x": 400, "actor=nobody": 200} {
		if status, _, page := r.do("GET", "/ui/audit?"+query, operator, ""); status != want || query == "actor=nobody" && !strings.Contains(page, "Nobody did anything that fits") {
			t.Errorf("the page with %s: %d, want %d", query, status, want)
		}
	}
	if status, _, _ := r.do("GET", "/ui/audit", doortest.Token(authn.Viewer), ""); status != 403 {
		t.Errorf("a viewer: %d", status)
	}
	// No service changes what is kept, and an end is kept once.
	for _, role := range []string{"holdfast_console", "holdfast_tools", "holdfast_trigger", "holdfast_approvals"} {
		for _, sql := range []string{`UPDATE console.audit SET actor = 'x'`, `DELETE FROM console.audit`} {
			if _, err := db.Open(t, role).Exec(t.Context(), sql); err == nil {
				t.Errorf("%s may: %s", role, sql)
			}
		}
	}
	e := door.AuditEntry{ID: "end-once", Namespace: "default", Service: "tools", Actor: "a", Door: "api", Action: "x", Status: 0}
	l := audit.New(db.Open(t, "holdfast_tools"))
	for _, step := range []error{l.Begin(t.Context(), e), l.Begin(t.Context(), e)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	if got := list("outcome=unknown"); len(got) != 1 {
		t.Errorf("without an end: %v", got)
	}
	for _, status := range []int{http.StatusOK, http.StatusInternalServerError} {
		e.Status = status
		if err := l.End(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.number(`SELECT status FROM console.audit WHERE id = 'end-once'`); n != 200 {
		t.Errorf("the end is %d", n)
	}
	// While the database is away nothing is done.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Begin(gone, e); err == nil {
		t.Error("an entry that was not kept is said to be")
	}
	r.exec(`UPDATE console.audit SET at = clock_timestamp() - interval '3 days' WHERE actor = 'operator'`)
	if more, err := store.SweepAudit(t.Context(), 48*3600e9); more || err != nil || r.number(`SELECT count(*) FROM console.audit`) != 3 {
		t.Errorf("old rows stay: %v %v", more, err)
	}
	r.do("POST", "/ui/runs/delete", "", url.Values{"id": {idOf(5)}, "reason": {"a\ab" + strings.Repeat("x", 2000)}}.Encode(), "Cookie", door.SessionCookie+"="+operator, "Sec-Fetch-Site", "same-origin", "Content-Type", "application/x-www-form-urlencoded")
	if got := list("target=" + idOf(5)); len(got) != 1 || !strings.HasSuffix(got[0], "|a b"+strings.Repeat("x", 997)+"…") {
		t.Errorf("a long reason with a control character: %v", got)
	}
	r.exec(`ALTER FUNCTION catalog.audit_begin(json) RENAME TO audit_gone`)
	if status, _, raw := r.do("POST", "/v1/runs/"+idOf(1)+"/cancel", operator, `{}`, "Content-Type", "application/json"); status != 503 {
		t.Errorf("an act that nobody keeps: %d %s", status, raw)
	}
}
