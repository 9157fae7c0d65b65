package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console/httpapi"
	"github.com/holdfast-run/holdfast/web"
)

func TestPages_ShowHostileTextAsText(t *testing.T) {
	t.Parallel()
	r := setup(t)
	id := events.NewRunID()
	r.take("default", id, "shop", `{"<script>alert(1)</script>":"\"><img src=x onerror=alert(1)>"}`)
	r.step(id, "waiting", false)
	evil := `"><script>alert(1)</script>`
	r.exec(`UPDATE runner.runs SET name = $2, waiting = $2, output = to_json($2::text), error = to_json($2::text) WHERE run_id = $1`, id, evil)
	r.exec(`UPDATE runner.journal SET cause = $2, kind = $2, worker = $2, data = to_json($2::text) WHERE run_id = $1 AND seq = 2`, id, evil)
	r.exec(`INSERT INTO runner.pending (run_id, namespace, item, kind, detail) VALUES ($1, 'default', 'call/x', 'tool', $2)`, id, evil)
	for i, row := range []string{`plan_changed {"call_id":"c","replace":true,"items":[{"id":"1","title":%[1]s,"state":%[1]s,"note":%[1]s}]}`, `facts_changed {"call_id":"c","set":{%[1]s:%[1]s}}`} {
		kind, data, _ := strings.Cut(row, " ")
		quoted, _ := json.Marshal(evil)
		r.exec(`INSERT INTO runner.journal (run_id, seq, kind, status, cause, inbound, worker, at, data) VALUES ($1, $2, $3, 'running', 'c', false, 'w', clock_timestamp(), $4::text::json)`, id, i+3, kind, fmt.Sprintf(data, quoted))
	}
	r.exec(`INSERT INTO tools.artifacts (artifact_id, namespace, run_id, call_id, tool, name, content_type, title, bytes, digest) VALUES ('a-1', 'default', $1, 'c', $2, $2, $2, $2, 22, 'd')`, id, evil)
	r.exec(`UPDATE runner.journal SET data = json_build_object('pools', json_build_array(json_build_object('kind', 'budget', 'name', $2::text, 'digest', 'd')), 'accepted_at', '2026-11-29T00:00:00Z') WHERE run_id = $1 AND seq = 1`, id, evil)
	r.exec(`INSERT INTO runner.pools (namespace, pool, window_start, unit, ceiling, used) VALUES ('default', $1, $1, $1, 10, 7)`, evil)
	for _, path := range []string{"/", "/?status=waiting&agent=" + url.QueryEscape(evil), "/ui/runs/" + string(id), httpapi.SignInPath} {
		status, header, raw := r.do("GET", path, doortest.Token(authn.Operator), "")
		if status != 200 || header.Get("Content-Security-Policy") != web.CSP || !strings.HasPrefix(header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %d %v", path, status, header)
		}
		for _, bad := range []string{"<script>", "<img", "<style", "onerror=\"", "javascript:"} {
			if strings.Contains(raw, bad) {
				t.Errorf("%s has %s", path, bad)
			}
		}
	}
	if _, _, raw := r.do("GET", "/ui/runs/"+string(id), doortest.Token(authn.Viewer), ""); strings.Count(raw, "&gt;&lt;script&gt;alert(1)") < 15 {
		t.Error("the run's page does not show what the run wrote down")
	}
	if _, _, raw := r.do("GET", "/ui/runs/"+string(id), doortest.Token(authn.Viewer), ""); strings.Contains(raw, "<form") {
		t.Error("a viewer is offered a button")
	}
	if status, _, raw := r.do("GET", "/ui/holdfast.css", "", ""); status != 200 || raw != string(web.CSS()) {
		t.Errorf("style sheet: %d", status)
	}
}

func TestPages_CancelNeedsThisSite(t *testing.T) {
	t.Parallel()
	r := setup(t)
	id := events.NewRunID()
	r.take("default", id, "shop", `{}`)
	path := "/ui/runs/" + string(id) + "/cancel"
	cookie := door.SessionCookie + "=" + doortest.Token(authn.Operator)
	if status, _, _ := r.do("POST", path, "", "", "Cookie", cookie, "Sec-Fetch-Site", "cross-site"); status != 403 {
		t.Errorf("another site cancels: %d", status)
	}
	if status, _, _ := r.do("GET", path, "", "", "Cookie", cookie); status != 200 || r.number(`SELECT count(*) FROM console.commands`) != 0 {
		t.Errorf("GET cancels: %d", status)
	}
	status, header, raw := r.do("POST", path, "", "", "Cookie", cookie, "Sec-Fetch-Site", "same-origin")
	if status != 303 || header.Get("Location") != "/ui/runs/"+string(id)+"?done=cancel" {
		t.Errorf("this site: %d %s", status, raw)
	}
	var n int
	if err := r.db.QueryRow(t.Context(), `SELECT count(*) FROM console.commands WHERE kind = 'cancel' AND principal = 'operator'`).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d commands, %v", n, err)
	}
}

func TestSignIn_NoFormIsTheSendersMistake(t *testing.T) {
	t.Parallel()
	r := setup(t)
	if status, _, body := r.do("POST", httpapi.SignInPath, "", "token=%zz", "Content-Type", "application/x-www-form-urlencoded"); status != http.StatusBadRequest {
		t.Errorf("a broken form: %d %s, want 400", status, body)
	}
}

func TestSignIn_TokenBecomesACookie(t *testing.T) {
	t.Parallel()
	r := setup(t)
	if status, header, _ := r.do("GET", "/", "", "", "Accept", "text/html"); status != 303 || header.Get("Location") != httpapi.SignInPath {
		t.Errorf("a browser without a token: %d", status)
	}
	form := func(token string, header ...string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), "POST", r.url+httpapi.SignInPath, strings.NewReader(url.Values{"token": {token}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		res, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		return res
	}
	if res := form("hf_wrong"); res.StatusCode != 401 || len(res.Cookies()) != 0 {
		t.Errorf("a wrong token: %d %v", res.StatusCode, res.Cookies())
	}
	if res := form(doortest.Token(authn.Viewer), "Sec-Fetch-Site", "cross-site"); res.StatusCode != 403 || len(res.Cookies()) != 0 {
		t.Errorf("from another site: %d", res.StatusCode)
	}
	res := form(doortest.Token(authn.Viewer))
	if res.StatusCode != 303 || len(res.Cookies()) != 1 {
		t.Fatalf("sign in: %d %v", res.StatusCode, res.Cookies())
	}
	c := res.Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode {
		t.Errorf("cookie: %+v", c)
	}
	if status, _, raw := r.do("GET", "/", "", "", "Cookie", c.Name+"="+c.Value); status != 200 || !strings.Contains(raw, "Signed in as viewer") {
		t.Errorf("signed in: %d", status)
	}
}

// Signing in and out takes forms of this address alone, and over https its cookies
// are of this host alone.
func TestSignIn_OfAnotherSite(t *testing.T) {
	t.Parallel()
	r := setup(t)
	form := "token=" + doortest.Token(authn.Viewer)
	kind := []string{"Content-Type", "application/x-www-form-urlencoded"}
	for _, path := range []string{httpapi.SignInPath, "/ui/sign-out"} {
		for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "null"}, {"Origin", "https://evil.example"}} {
			if status, h, _ := r.do("POST", path, "", form, append(header, kind...)...); status != 403 || h.Get("Set-Cookie") != "" {
				t.Errorf("%s with %v: %d %q", path, header, status, h.Get("Set-Cookie"))
			}
		}
	}
	status, h, _ := r.do("POST", httpapi.SignInPath, "", form+"&return=%2F%2Fevil.example", append(kind, "Sec-Fetch-Site", "same-origin", "X-Forwarded-Proto", "https")...)
	if c := h.Get("Set-Cookie"); status != 303 || h.Get("Location") != "/" || !strings.HasPrefix(c, "__Host-"+door.SessionCookie+"=") || !strings.Contains(c, "; Secure") || !strings.Contains(c, "; HttpOnly") || strings.Contains(c, "Domain") {
		t.Errorf("over https: %d to %q, %q", status, h.Get("Location"), c)
	}
	// Over https only the bound one counts: another could have been set by a neighbour.
	for cookie, want := range map[string]int{door.SessionCookie: 401, "__Host-" + door.SessionCookie: 200} {
		if status, _, _ := r.do("GET", "/v1/runs", "", "", "Cookie", cookie+"="+doortest.Token(authn.Viewer), "X-Forwarded-Proto", "https"); status != want {
			t.Errorf("%s over https: %d, want %d", cookie, status, want)
		}
	}
}
