package httpapi_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/oidc"
	"github.com/holdfast-run/holdfast/internal/oidctest"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/services/console/httpapi"
	"github.com/holdfast-run/holdfast/services/console/postgres"
)

// signRig is a console at which people sign in, with sessions that are really stored.
type signRig struct {
	t     *testing.T
	url   string
	idp   *oidctest.Provider
	db    *pgxpool.Pool // as superuser
	store *postgres.Store
}

func setupSignIn(t *testing.T) *signRig {
	t.Helper()
	db := pgtest.New(t)
	pool := db.Open(t, "holdfast_console")
	store := postgres.New(pool)
	idp := oidctest.New(t)
	var handler http.Handler
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(srv.Close)
	mapping, err := oidc.ParseMapping([]string{"ops=default/operator", "leads=default/approver", "all=other/viewer", "root=default/admin"})
	if err != nil {
		t.Fatal(err)
	}
	d := door.New(door.Config{Title: "console", Version: "test", Verifier: authn.NewPostgres(pool), SignIn: httpapi.SignInPath, Log: bustest.Log(t)})
	httpapi.Register(d, console.New(console.Config{Store: store}), httpapi.SignIn{
		Title: "Example", PublicURL: srv.URL, Mapping: mapping, Lifetime: time.Hour, Idle: 10 * time.Minute,
		Provider: oidc.New(oidc.Config{Issuer: idp.URL, ClientID: oidctest.ClientID, Secret: oidctest.Secret, RedirectURL: srv.URL + httpapi.CallbackPath,
			GroupsClaim: "groups", NameClaim: oidc.NameEmail, Skew: time.Minute, Client: &http.Client{Transport: http.DefaultTransport}}),
	})
	handler = d.Handler()
	return &signRig{t: t, url: srv.URL, idp: idp, db: db.Pool, store: store}
}

// browser keeps cookies. It follows redirects as long as follow says.
type browser struct {
	*signRig
	client *http.Client
}

func (r *signRig) browser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return &browser{r, &http.Client{Jar: jar}}
}

func (b *browser) send(method, to, form string) (*http.Response, string) {
	b.t.Helper()
	if strings.HasPrefix(to, "/") {
		to = b.url + to
	}
	req, err := http.NewRequestWithContext(b.t.Context(), method, to, strings.NewReader(form))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	res, err := b.client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return res, string(body)
}

// stopAt makes the browser show a redirect to a path instead of following it.
func (b *browser) stopAt(path string) {
	b.client.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == path {
			return http.ErrUseLastResponse
		}
		return nil
	}
}

// callback is where the provider sends the browser back to, without going there.
func (b *browser) callback(back string) string {
	b.t.Helper()
	b.stopAt(httpapi.CallbackPath)
	res, body := b.send("GET", httpapi.StartPath+"?return="+url.QueryEscape(back), "")
	b.client.CheckRedirect = nil
	to := res.Header.Get("Location")
	if !strings.HasPrefix(to, b.url+httpapi.CallbackPath+"?") {
		b.t.Fatalf("the provider sends the browser to %q (%d %s)", to, res.StatusCode, body)
	}
	return to
}

func (b *browser) cookie(name string) string {
	u, err := url.Parse(b.url)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range b.client.Jar.Cookies(u) {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}

func (r *signRig) sessions() (n int) {
	r.t.Helper()
	if err := r.db.QueryRow(r.t.Context(), `SELECT count(*) FROM catalog.sessions`).Scan(&n); err != nil {
		r.t.Fatal(err)
	}
	return n
}

// A person signs in, is who the provider says, acts, turns to another role, and signs
// out; each cookie that was left counts for nothing.
func TestOIDC_APersonSignsInAndOut(t *testing.T) {
	t.Parallel()
	r := setupSignIn(t)
	b := r.browser()
	r.idp.Next(map[string]any{"email": "Maria@Example.com", "groups": []string{"ops", "leads", "all", "no good name"}})
	if _, page := b.send("GET", "/?status=failed", ""); !strings.Contains(page, "Sign in with Example") || !strings.Contains(page, url.QueryEscape("/?status=failed")) {
		t.Fatalf("the sign-in page:\n%s", page)
	}
	res, page := b.send("GET", httpapi.StartPath+"?return=%2F%3Fstatus%3Dfailed", "")
	if res.StatusCode != 200 || res.Request.URL.RequestURI() != "/?status=failed" || !strings.Contains(page, "Signed in as maria@example.com<br>operator") {
		t.Fatalf("signed in: %d at %s\n%s", res.StatusCode, res.Request.URL, page)
	}
	first := b.cookie(door.SessionCookie)
	if !authn.IsSession(first) || b.cookie("holdfast_signin") != "" {
		t.Errorf("cookies: %q %q", first, b.cookie("holdfast_signin"))
	}
	var stored, groups string
	if err := r.db.QueryRow(t.Context(), `SELECT row_to_json(s)::text, groups::text FROM catalog.sessions s`).Scan(&stored, &groups); err != nil || strings.Contains(stored, first) || groups != "{all,leads,ops}" {
		t.Errorf("the stored session holds the cookie or other groups: %v %s", err, groups)
	}
	// It counts in a cookie alone.
	req, _ := http.NewRequestWithContext(t.Context(), "GET", r.url+"/v1/runs", nil)
	req.Header.Set("Authorization", "Bearer "+first)
	if res, err := http.DefaultClient.Do(req); err != nil || res.StatusCode != 401 {
		t.Errorf("as a bearer token: %v %v", res, err)
	}
	if _, page := b.send("GET", httpapi.AccountPath, ""); !strings.Contains(page, `value="default/approver"`) || !strings.Contains(page, `value="other/viewer"`) || strings.Contains(page, "Everybody who may act") {
		t.Errorf("the account:\n%s", page)
	}
	for _, to := range []string{"default/admin", "elsewhere/viewer", ""} {
		if res, _ := b.send("POST", httpapi.AccountPath+"/turn", "to="+to); res.StatusCode != 404 {
			t.Errorf("turns to %q: %d", to, res.StatusCode)
		}
	}
	if _, page := b.send("POST", httpapi.AccountPath+"/turn", "to=default%2Fapprover"); !strings.Contains(page, "You are approver in default now.") {
		t.Errorf("turned:\n%s", page)
	}
	second := b.cookie(door.SessionCookie)
	if second == first || r.sessions() != 1 {
		t.Errorf("a turn keeps the cookie, or makes a session: %d", r.sessions())
	}
	if res, page := b.send("POST", "/ui/sign-out", ""); res.Request.URL.Path != httpapi.SignInPath || !strings.Contains(page, "You are signed out here.") {
		t.Errorf("signed out: %s\n%s", res.Request.URL, page)
	}
	waitRefused(t, r, first, second)
}

// waitRefused waits until cookies count for nothing: the door may have seen them valid two seconds ago.
func waitRefused(t *testing.T, r *signRig, cookies ...string) {
	t.Helper()
	for _, c := range cookies {
		for until := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			req, err := http.NewRequestWithContext(t.Context(), "GET", r.url+"/v1/runs", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.AddCookie(&http.Cookie{Name: door.SessionCookie, Value: c})
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode == 401 {
				break
			}
			if time.Now().After(until) {
				t.Fatalf("a cookie that was left still counts: %d", res.StatusCode)
			}
		}
	}
}

// What a provider must not be able to say, and what somebody between it and us must
// not be able to do.
func TestOIDC_WhatDoesNotSignIn(t *testing.T) {
	t.Parallel()
	r := setupSignIn(t)
	now := time.Now()
	many := make([]string, oidc.MaxGroups+1)
	for i := range many {
		many[i] = "g" + strings.Repeat("x", i)
	}
	r.idp.Info(map[string]any{"sub": "u-1"})
	for name, tc := range map[string]struct {
		claims map[string]any
		sign   func(map[string]any) string
		want   int
		say    string
	}{
		"no group of the map":           {map[string]any{"groups": []string{"<b>sales</b>"}}, nil, 403, "none of your groups has access here"},
		"no groups at all":              {map[string]any{"groups": nil}, nil, 403, "names no groups of yours"},
		"an address not verified":       {map[string]any{"email_verified": false}, nil, 403, "not verified"},
		"an address, nothing of it":     {map[string]any{"email_verified": nil}, nil, 403, "not verified"},
		"no address":                    {map[string]any{"email": nil}, nil, 403, "did not tell your e-mail address"},
		"an address with letters alike": {map[string]any{"email": "mаria@example.com"}, nil, 403, "cannot be one here"},
		"a name that is no address":     {map[string]any{"email": "ci"}, nil, 403, "cannot be one here"},
		"an address of two":             {map[string]any{"email": "maria@example.com@evil.example"}, nil, 403, "cannot be one here"},
		"an address with a line":        {map[string]any{"email": "maria\n@example.com"}, nil, 403, "cannot be one here"},
		"too many groups":               {map[string]any{"groups": many}, nil, 403, "more than 200"},
		"another nonce":                 {map[string]any{"nonce": "another"}, nil, 403, "not valid here"},
		"no nonce":                      {map[string]any{"nonce": nil}, nil, 403, "not valid here"},
		"another audience":              {map[string]any{"aud": "another"}, nil, 403, "not valid here"},
		"two audiences, made for one":   {map[string]any{"aud": []string{oidctest.ClientID, "another"}, "azp": "another"}, nil, 403, "not valid here"},
		"two audiences, for nobody":     {map[string]any{"aud": []string{oidctest.ClientID, "another"}}, nil, 403, "not valid here"},
		"another issuer":                {map[string]any{"iss": "https://evil.example"}, nil, 403, "not valid here"},
		"too old":                       {map[string]any{"exp": now.Add(-2 * time.Minute).Unix()}, nil, 403, "not valid here"},
		"from tomorrow":                 {map[string]any{"iat": now.Add(time.Hour).Unix(), "exp": now.Add(2 * time.Hour).Unix()}, nil, 403, "not valid here"},
		"not signed":                    {nil, oidctest.None, 403, "not valid here"},
		"signed with what we know":      {nil, oidctest.HS256, 403, "not valid here"},
		"signed by a stranger":          {nil, oidctest.Stranger, 403, "not valid here"},
	} {
		r.idp.Next(tc.claims)
		r.idp.Sign(oidctest.RS256)
		if tc.sign != nil {
			r.idp.Sign(tc.sign)
		}
		b := r.browser()
		res, page := b.send("GET", httpapi.StartPath, "")
		if res.StatusCode != tc.want || !strings.Contains(page, tc.say) || strings.Contains(page, "<b>sales") || b.cookie(door.SessionCookie) != "" {
			t.Errorf("%s: %d, want %d and %q\n%s", name, res.StatusCode, tc.want, tc.say, page)
		}
	}
	// A clock that is off by less than the skew is none of these.
	r.idp.Sign(oidctest.RS256)
	r.idp.Next(map[string]any{"exp": now.Add(-20 * time.Second).Unix(), "iat": now.Add(30 * time.Second).Unix(), "email_verified": "true", "aud": []string{oidctest.ClientID}})
	if r.sessions() != 0 {
		t.Errorf("%d sessions", r.sessions())
	}
	if res, page := r.browser().send("GET", httpapi.StartPath, ""); res.StatusCode != 200 || r.sessions() != 1 {
		t.Errorf("clocks that differ a little: %d\n%s", res.StatusCode, page)
	}
	// Groups may stand in userinfo, of the same person.
	r.idp.Next(map[string]any{"groups": nil})
	r.idp.Info(map[string]any{"sub": "u-2", "groups": []string{"root"}})
	if res, page := r.browser().send("GET", httpapi.StartPath, ""); res.StatusCode != 403 || !strings.Contains(page, "not valid here") {
		t.Errorf("userinfo of somebody else: %d\n%s", res.StatusCode, page)
	}
	r.idp.Info(map[string]any{"sub": "u-1", "groups": "root"})
	if _, page := r.browser().send("GET", httpapi.StartPath, ""); !strings.Contains(page, "<br>admin") {
		t.Errorf("groups of userinfo:\n%s", page)
	}
}

// A state counts once and in the browser that began; a code is worth nothing without
// what that browser keeps; a session begins under an id that nobody knew.
func TestOIDC_StolenAndReplayed(t *testing.T) {
	t.Parallel()
	r := setupSignIn(t)
	victim, thief := r.browser(), r.browser()
	to := victim.callback("/")
	if res, page := thief.send("GET", to, ""); res.StatusCode != 403 || !strings.Contains(page, "not begun in this browser") || r.idp.Asked() != 0 {
		t.Errorf("a stolen callback: %d, the provider was asked %d times\n%s", res.StatusCode, r.idp.Asked(), page)
	}
	// The thief's own sign-in with the victim's code: PKCE.
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	own, err := url.Parse(thief.callback("/"))
	if err != nil {
		t.Fatal(err)
	}
	q := own.Query()
	q.Set("code", u.Query().Get("code"))
	own.RawQuery = q.Encode()
	if res, page := thief.send("GET", own.String(), ""); res.StatusCode != 403 || !strings.Contains(page, "does not accept the sign-in") || thief.cookie(door.SessionCookie) != "" {
		t.Errorf("a stolen code: %d\n%s", res.StatusCode, page)
	}
	// The victim finishes, keeps the sign-in's cookie, and shows all of it again.
	to = victim.callback("/")
	kept := victim.cookie("holdfast_signin")
	if res, _ := victim.send("GET", to, ""); res.StatusCode != 200 || r.sessions() != 1 {
		t.Fatalf("the victim: %d", res.StatusCode)
	}
	asked := r.idp.Asked()
	again := r.browser()
	home, err := url.Parse(r.url)
	if err != nil {
		t.Fatal(err)
	}
	again.client.Jar.SetCookies(home, []*http.Cookie{{Name: "holdfast_signin", Value: kept, Path: "/"}})
	if res, page := again.send("GET", to, ""); res.StatusCode != 403 || !strings.Contains(page, "finished already") || r.idp.Asked() != asked || r.sessions() != 1 {
		t.Errorf("replayed: %d, asked %d times more\n%s", res.StatusCode, r.idp.Asked()-asked, page)
	}
	// What the provider refuses, and another provider's answer.
	b := r.browser()
	u, err = url.Parse(b.callback("/"))
	if err != nil {
		t.Fatal(err)
	}
	for say, change := range map[string]url.Values{"did not let you in": {"error": {"access_denied"}, "code": nil}, "refused the sign-in": {"error": {"<script>"}}, "sent nothing to sign in with": {"code": nil}, "another sign-in provider": {"iss": {"https://evil.example"}}, "not begun in this browser": {"state": {""}}} {
		q := u.Query()
		maps.Copy(q, change)
		if res, page := b.send("GET", httpapi.CallbackPath+"?"+q.Encode(), ""); res.StatusCode != 403 || !strings.Contains(page, say) || strings.Contains(page, "<script>") {
			t.Errorf("%s: %d\n%s", say, res.StatusCode, page)
		}
	}
	// A session that the browser had before is not the one it gets, and ends.
	planted := victim.cookie(door.SessionCookie)
	fixed := r.browser()
	fixed.client.Jar.SetCookies(home, []*http.Cookie{{Name: door.SessionCookie, Value: planted, Path: "/"}})
	r.idp.Next(map[string]any{"sub": "u-2", "email": "jonas@example.com"})
	if _, page := fixed.send("GET", httpapi.StartPath, ""); !strings.Contains(page, "Signed in as jonas@example.com") || fixed.cookie(door.SessionCookie) == planted {
		t.Errorf("a planted session stays:\n%s", page)
	}
	waitRefused(t, r, planted)
}

// After the sign-in a browser goes to a page of this address, whatever it was told.
func TestOIDC_ReturnsHere(t *testing.T) {
	t.Parallel()
	r := setupSignIn(t)
	for back, want := range map[string]string{
		"/ui/account?x=1": "/ui/account?x=1", "https://evil.example/": "/", "//evil.example/x": "/", `/\evil.example`: "/", "/\t/evil.example": "/", "\\\\evil.example": "/", "javascript:alert(1)": "/",
		"": "/", "/" + strings.Repeat("a", 3000): "/", "/%5cevil.example": "/", "/%2f%2fevil.example": "/", "/\r\nSet-Cookie: a=b": "/",
	} {
		b := r.browser()
		b.client.CheckRedirect = func(q *http.Request, _ []*http.Request) error {
			if q.Response != nil && q.Response.Request.URL.Path == httpapi.CallbackPath {
				return http.ErrUseLastResponse
			}
			return nil
		}
		if res, _ := b.send("GET", httpapi.StartPath+"?return="+url.QueryEscape(back), ""); res.StatusCode != 303 || res.Header.Get("Location") != want {
			t.Errorf("%q leads to %q (%d), want %q", back, res.Header.Get("Location"), res.StatusCode, want)
		}
	}
	// Begun at another name of ours, it goes on at the one that the provider knows.
	other := strings.Replace(r.url, "127.0.0.1", "localhost", 1)
	b := r.browser()
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, _ := b.send("GET", other+httpapi.StartPath+"?return=%2Fx", "")
	if want := r.url + httpapi.StartPath + "?here=1&return=%2Fx"; res.Header.Get("Location") != want {
		t.Errorf("another name leads to %q, want %q", res.Header.Get("Location"), want)
	}
	if res, _ := b.send("GET", other+httpapi.StartPath+"?here=1", ""); res.StatusCode != 421 {
		t.Errorf("another name again: %d", res.StatusCode)
	}
}

// While the provider is away who is in stays in, tokens work, and a page says so.
func TestOIDC_ProviderAway(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool := db.Open(t, "holdfast_console")
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	d := door.New(door.Config{Title: "console", Verifier: authn.NewPostgres(pool), SignIn: httpapi.SignInPath, Log: bustest.Log(t)})
	srv := httptest.NewServer(d.Handler())
	t.Cleanup(srv.Close)
	httpapi.Register(d, console.New(console.Config{Store: postgres.New(pool)}), httpapi.SignIn{Title: "Example", PublicURL: srv.URL, Provider: oidc.New(oidc.Config{Issuer: gone.URL, ClientID: "x", Client: &http.Client{Transport: http.DefaultTransport}})})
	token, stored, err := httpapi.Mint(t.Context(), postgres.New(pool), console.Token{Namespace: "default", Role: "viewer", Name: "ci", CreatedBy: "test"})
	if err != nil {
		t.Fatal(err)
	}
	r := &signRig{t: t, url: srv.URL, db: db.Pool}
	b := r.browser()
	if res, page := b.send("GET", httpapi.StartPath, ""); res.StatusCode != 503 || !strings.Contains(page, "provider cannot be reached") || !strings.Contains(page, `id="token"`) {
		t.Errorf("away: %d\n%s", res.StatusCode, page)
	}
	if res, page := b.send("POST", httpapi.SignInPath, "return=%2Fui%2Faccount&token="+token); res.StatusCode != 200 || res.Request.URL.Path != httpapi.AccountPath || !strings.Contains(page, "Signed in as ci") {
		t.Errorf("with a token: %d\n%s", res.StatusCode, page)
	}
	// The cookie is a session, not the token, and ends with the token.
	cookie := b.cookie(door.SessionCookie)
	if !authn.IsSession(cookie) {
		t.Errorf("the cookie holds %.4s", cookie)
	}
	if _, err := postgres.New(pool).RevokeToken(t.Context(), "default", stored.ID, "test"); err != nil {
		t.Fatal(err)
	}
	waitRefused(t, r, cookie)
}

// Sessions are listed and ended by an admin of a namespace in which they may act, and
// by nobody else but their own person; unused and old ones end by themselves.
func TestSessions_EndedByWhoMay(t *testing.T) {
	t.Parallel()
	r := setupSignIn(t)
	mint := func(namespace, role string) string {
		token, _, err := httpapi.Mint(t.Context(), r.store, console.Token{Namespace: namespace, Role: role, Name: role + "-" + namespace, CreatedBy: "test"})
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	call := func(token, method, path, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, r.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		raw, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(raw)
	}
	in := func(sub, email string, groups ...string) *browser {
		r.idp.Next(map[string]any{"sub": sub, "email": email, "groups": groups})
		b := r.browser()
		if res, page := b.send("GET", httpapi.StartPath, ""); res.StatusCode != 200 {
			t.Fatalf("%s: %d\n%s", email, res.StatusCode, page)
		}
		return b
	}
	maria, jonas := in("u-1", "maria@example.com", "ops", "all"), in("u-2", "jonas@example.com", "ops")
	marias := in("u-1", "maria@example.com", "ops", "all")
	list := func(token string) (ids, names []string) {
		status, raw := call(token, "GET", "/v1/sessions", "")
		var out struct{ Items []httpapi.Session }
		if err := json.Unmarshal([]byte(raw), &out); status != 200 || err != nil {
			t.Fatalf("list: %d %s", status, raw)
		}
		for _, s := range out.Items {
			ids, names = append(ids, s.ID), append(names, s.Name)
		}
		return ids, names
	}
	admin, other, third := mint("default", "admin"), mint("other", "admin"), mint("third", "admin")
	ids, names := list(admin)
	if _, theirs := list(other); !slices.Equal(names, []string{"maria@example.com", "jonas@example.com", "maria@example.com"}) || len(theirs) != 2 {
		t.Errorf("listed: %v; in the other namespace %v", names, theirs)
	}
	if none, _ := list(third); len(none) != 0 {
		t.Errorf("a third namespace lists %v", none)
	}
	for token, want := range map[string]int{third: 404, mint("default", "operator"): 403} {
		if status, _ := call(token, "DELETE", "/v1/sessions/"+ids[0], ""); status != want {
			t.Errorf("ended by a stranger: %d, want %d", status, want)
		}
	}
	// Jonas ends none of Maria's; Maria ends her other one.
	if res, _ := jonas.send("POST", httpapi.AccountPath+"/sessions/"+ids[2]+"/revoke", ""); res.StatusCode != 404 {
		t.Errorf("jonas ends maria's: %d", res.StatusCode)
	}
	if _, page := maria.send("POST", httpapi.AccountPath+"/sessions/"+ids[2]+"/revoke", ""); !strings.Contains(page, "The session was ended.") {
		t.Errorf("maria ends hers:\n%s", page)
	}
	if status, raw := call(other, "DELETE", "/v1/sessions/"+ids[0], ""); status != 200 || !strings.Contains(raw, `"revoked_by":"admin-other"`) {
		t.Errorf("ended by an admin of where it may act: %d %s", status, raw)
	}
	waitRefused(t, r, marias.cookie(door.SessionCookie), maria.cookie(door.SessionCookie))
	// A token does not get a person's name, nor a person that of a token.
	for name, want := range map[string]int{"Jonas@example.com": 409, "eva@example.com": 409, "ci": 201} {
		if status, raw := call(admin, "POST", "/v1/tokens", `{"name":"`+name+`","role":"approver"}`); status != want {
			t.Errorf("a token %s: %d %s, want %d", name, status, raw, want)
		}
	}
	if _, _, err := httpapi.Mint(t.Context(), r.store, console.Token{Namespace: "default", Role: "approver", Name: "Eva@Example.com", CreatedBy: "test"}); err != nil {
		t.Fatal(err) // one of before
	}
	r.idp.Next(map[string]any{"sub": "u-3", "email": "eva@example.com"})
	if res, page := r.browser().send("GET", httpapi.StartPath, ""); res.StatusCode != 403 || !strings.Contains(page, "There is a token with your name") {
		t.Errorf("a person with a token's name: %d\n%s", res.StatusCode, page)
	}
	// Unused for longer than it may be, and older than it may be.
	for change, ends := range map[string]string{`last_seen_at = clock_timestamp() - interval '11 min'`: "idle", `expires_at = clock_timestamp() - interval '1 s'`: "old"} {
		b := in("u-4", "ida@example.com", "ops")
		if _, err := r.db.Exec(t.Context(), `UPDATE catalog.sessions SET `+change+` WHERE subject = 'u-4'`); err != nil {
			t.Fatal(err)
		}
		waitRefused(t, r, b.cookie(door.SessionCookie))
		if res, _ := b.send("GET", "/", ""); res.Request.URL.Path != httpapi.SignInPath {
			t.Errorf("an %s session goes to %s", ends, res.Request.URL)
		}
	}
	// Use keeps it.
	b := in("u-5", "ola@example.com", "ops")
	if _, err := r.db.Exec(t.Context(), `UPDATE catalog.sessions SET last_seen_at = clock_timestamp() - interval '9 min' WHERE subject = 'u-5'`); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		b.send("GET", httpapi.AccountPath, "")
		var fresh bool
		if err := r.db.QueryRow(t.Context(), `SELECT last_seen_at > clock_timestamp() - interval '1 min' FROM catalog.sessions WHERE subject = 'u-5'`).Scan(&fresh); err != nil {
			t.Fatal(err)
		}
		if fresh {
			break
		}
		if time.Now().After(until) {
			t.Fatal("use does not keep a session")
		}
	}
}
