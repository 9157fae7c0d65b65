package door_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/internal/fault"
)

type echoInput struct {
	Name string `path:"name" pattern:"^[a-z]+$"`
	Body struct {
		Value json.RawMessage `json:"value"`
		Count int             `json:"count,omitempty" maximum:"10"`
	}
}

type echoOutput struct {
	Body struct {
		Value json.RawMessage `json:"value"`
		By    string          `json:"by"`
	}
}

// rig is a door with an echo and a route that fails as it is told.
func rig(t *testing.T, change func(*door.Config)) (*door.Door, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	cfg := door.Config{Title: "test", Version: "1", Verifier: doortest.Verifier(), MaxBody: 1000, Log: slog.New(slog.NewTextHandler(&log, nil))}
	if change != nil {
		change(&cfg)
	}
	d := door.New(cfg)
	door.Register(d, huma.Operation{Method: "POST", Path: "/v1/echo/{name}"}, authn.Operator,
		func(ctx context.Context, in *echoInput) (*echoOutput, error) {
			out := &echoOutput{}
			out.Body.Value = in.Body.Value
			p, _ := authn.FromContext(ctx)
			out.Body.By = p.Name + "@" + p.Namespace
			return out, nil
		})
	return d, &log
}

func failing(t *testing.T, err error) (*door.Door, *bytes.Buffer) {
	t.Helper()
	d, log := rig(t, nil)
	door.Register(d, huma.Operation{Method: "GET", Path: "/v1/fail"}, authn.Viewer,
		func(context.Context, *struct{}) (*struct{}, error) { return nil, err })
	d.Raw("GET /raw/fail", authn.Viewer, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { door.Fail(w, r, err) }))
	d.Raw("GET /raw/panic", authn.Viewer, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("hf_secret") }))
	return d, log
}

func call(t *testing.T, d *door.Door, method, path, token, body string, header ...string) (*http.Response, door.Problem, string) {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if body == "" {
		r = httptest.NewRequest(method, path, nil)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		if header[i] == "RemoteAddr" {
			r.RemoteAddr = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	d.Handler().ServeHTTP(w, r)
	res := w.Result()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var p door.Problem
	if res.StatusCode >= 400 {
		if ct := res.Header.Get("Content-Type"); ct != "application/problem+json" {
			t.Errorf("%s %s answers %d with content type %q", method, path, res.StatusCode, ct)
		}
		if err := json.Unmarshal(raw, &p); err != nil {
			t.Errorf("%s %s: %v: %s", method, path, err, raw)
		}
		if p.Status != res.StatusCode || p.Code == "" || p.RequestID == "" || p.RequestID != res.Header.Get("X-Request-Id") {
			t.Errorf("%s %s: incomplete problem %s", method, path, raw)
		}
	}
	return res, p, string(raw)
}

func TestMatrix_EveryRouteHoldsItsRole(t *testing.T) {
	t.Parallel()
	d, _ := failing(t, errors.New("x"))
	doortest.Matrix(t, d)
	if got := len(d.Routes()); got != 5 {
		t.Errorf("%d routes, want 5: %v", got, d.Routes())
	}
}

func TestRegister_KeepsDigitsAndNamesThePrincipal(t *testing.T) {
	t.Parallel()
	d, _ := rig(t, nil)
	_, _, got := call(t, d, "POST", "/v1/echo/abc", doortest.Token(authn.Operator), `{"value":{"b":9007199254740993,"a":1.10}}`)
	want := `{"value":{"b":9007199254740993,"a":1.10},"by":"operator@default"}`
	if diff := cmp.Diff(want, strings.TrimSpace(got)); diff != "" {
		t.Errorf("echo (-want +got):\n%s", diff)
	}
}

func TestRegister_RefusesBadInput(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		method, path, body string
		header             []string
		want               int
		wantCode           string
		wantField          string
	}{
		"unknown field":           {"POST", "/v1/echo/abc", `{"value":1,"colour":"red"}`, nil, 422, "invalid_input", "body.colour"},
		"too large a number":      {"POST", "/v1/echo/abc", `{"value":1,"count":11}`, nil, 422, "invalid_input", "body.count"},
		"path out of pattern":     {"POST", "/v1/echo/ABC", `{"value":1}`, nil, 422, "invalid_input", "path.name"},
		"not JSON":                {"POST", "/v1/echo/abc", `{"value":`, nil, 400, "bad_request", ""},
		"unknown query parameter": {"POST", "/v1/echo/abc?x=1", `{"value":1}`, nil, 422, "invalid_input", "query.x"},
		"over the limit":          {"POST", "/v1/echo/abc", `{"value":"` + strings.Repeat("x", 1000) + `"}`, nil, 413, "body_too_large", ""},
		"compressed":              {"POST", "/v1/echo/abc", `{"value":1}`, []string{"Content-Encoding", "gzip"}, 415, "unsupported_media_type", ""},
		"wrong method":            {"DELETE", "/v1/echo/abc", ``, nil, 405, "method_not_allowed", ""},
		"no route":                {"GET", "/v1/nothing", ``, nil, 404, "not_found", ""},
		"wrong namespace":         {"POST", "/v1/echo/abc", `{"value":1}`, []string{door.HeaderNamespace, "other"}, 403, "wrong_namespace", ""},
		"not a namespace":         {"POST", "/v1/echo/abc", `{"value":1}`, []string{door.HeaderNamespace, "A B"}, 400, "bad_request", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, _ := rig(t, nil)
			res, p, raw := call(t, d, tc.method, tc.path, doortest.Token(authn.Admin), tc.body, tc.header...)
			if res.StatusCode != tc.want || p.Code != tc.wantCode {
				t.Errorf("got %d %s, want %d %s: %s", res.StatusCode, p.Code, tc.want, tc.wantCode, raw)
			}
			if tc.wantField != "" && (len(p.Errors) == 0 || p.Errors[0].Field != tc.wantField) {
				t.Errorf("field %+v, want %s", p.Errors, tc.wantField)
			}
		})
	}
}

func TestBody_ChunkedOverTheLimit(t *testing.T) {
	t.Parallel()
	d, _ := rig(t, nil)
	d.Raw("POST /raw", door.Public, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			door.Fail(w, r, fmt.Errorf("read: %w", err))
		}
	}))
	srv := httptest.NewServer(d.Handler())
	t.Cleanup(srv.Close)
	for path, want := range map[string]int{"/raw": 413, "/v1/echo/abc": 413} {
		req, err := http.NewRequest("POST", srv.URL+path, struct{ io.Reader }{strings.NewReader(`{"value":"` + strings.Repeat("x", 1000) + `"}`)})
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+doortest.Token(authn.Admin))
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, res.StatusCode, want)
		}
	}
}

func TestErrors_BecomeProblems(t *testing.T) {
	t.Parallel()
	secret := "postgres://holdfast:hf_secret@db/x"
	for name, tc := range map[string]struct {
		err       error
		want      int
		wantCode  string
		wantAfter string
		wantLog   bool
	}{
		"unnamed":             {errors.New(secret), 500, "internal", "", true},
		"problem":             {fmt.Errorf("get run: %w", door.NotFound("no run")), 404, "not_found", "", false},
		"terminal":            {fault.Terminal("bad_shop", errors.New("no such shop")), 422, "bad_shop", "", false},
		"retry after":         {fault.RetryAfter(2500*time.Millisecond, errors.New(secret)), 503, "unavailable", "3", true},
		"database shuts down": {fmt.Errorf("q: %w", &pgconn.PgError{Code: "57P01", Message: secret}), 503, "unavailable", "2", true},
		"read only database":  {&pgconn.PgError{Code: "25006", Message: secret}, 503, "unavailable", "2", true},
		"deadline":            {fmt.Errorf("q: %w", context.DeadlineExceeded), 503, "unavailable", "2", true},
		"NUL in text":         {&pgconn.PgError{Code: "22021", Message: secret}, 422, "invalid_input", "", false},
		"constraint":          {&pgconn.PgError{Code: "23505", Message: secret}, 500, "internal", "", true},
		"huma's own":          {huma.Error409Conflict("twice"), 409, "bad_request", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, log := failing(t, tc.err)
			for _, path := range []string{"/v1/fail", "/raw/fail"} {
				log.Reset()
				res, p, raw := call(t, d, "GET", path, doortest.Token(authn.Viewer), "")
				if res.StatusCode != tc.want || p.Code != tc.wantCode || res.Header.Get("Retry-After") != tc.wantAfter {
					t.Errorf("%s: got %d %s, Retry-After %q; want %d %s %q", path, res.StatusCode, p.Code, res.Header.Get("Retry-After"), tc.want, tc.wantCode, tc.wantAfter)
				}
				if strings.Contains(raw, "hf_secret") {
					t.Errorf("%s tells a secret: %s", path, raw)
				}
				if got := log.Len() > 0; got != tc.wantLog {
					t.Errorf("%s: logged %v, want %v: %s", path, got, tc.wantLog, log)
				}
			}
		})
	}
}

func TestPanic_Is500WithoutDetail(t *testing.T) {
	t.Parallel()
	d, log := failing(t, errors.New("x"))
	res, p, raw := call(t, d, "GET", "/raw/panic", doortest.Token(authn.Viewer), "", "X-Request-Id", "abc-1")
	if res.StatusCode != 500 || p.Code != "internal" || p.RequestID != "abc-1" || strings.Contains(raw, "hf_secret") {
		t.Errorf("got %d %s", res.StatusCode, raw)
	}
	if !strings.Contains(log.String(), "handler panicked") {
		t.Errorf("not logged: %s", log)
	}
}

func TestDevPrincipal_OnlyOnLoopback(t *testing.T) {
	t.Parallel()
	d, _ := rig(t, func(c *door.Config) {
		c.DevPrincipal = &authn.Principal{Name: "dev", Namespace: "default", Role: authn.Admin}
	})
	loop := []string{"RemoteAddr", "127.0.0.1:4000", "Host", "localhost:8080"}
	for name, tc := range map[string]struct {
		token  string
		header []string
		want   int
		wantBy string
	}{
		"from here":                        {"", loop, 200, "dev@default"},
		"from here in a namespace":         {"", append([]string{door.HeaderNamespace, "team"}, loop...), 200, "dev@team"},
		"forwarded from here":              {"", append([]string{"X-Forwarded-For", "::1"}, loop...), 200, "dev@default"},
		"forwarded from elsewhere":         {"", append([]string{"X-Forwarded-For", "10.0.0.9"}, loop...), 401, ""},
		"forwarded, as it is written now":  {"", append([]string{"Forwarded", "for=10.0.0.9"}, loop...), 401, ""},
		"from elsewhere":                   {"", []string{"RemoteAddr", "10.0.0.9:4000", "Host", "localhost"}, 401, ""},
		"a foreign name for this machine":  {"", []string{"RemoteAddr", "127.0.0.1:4000", "Host", "evil.example:8080"}, 401, ""},
		"by another site's page":           {"", append([]string{"Sec-Fetch-Site", "cross-site"}, loop...), 403, ""},
		"by another site's page, old":      {"", append([]string{"Origin", "https://evil.example"}, loop...), 403, ""},
		"with a wrong token":               {"hf_wrong", loop, 401, ""},
		"with a token of less":             {doortest.Token(authn.Viewer), loop, 403, ""},
		"with a token from another site's": {doortest.Token(authn.Operator), append([]string{"Sec-Fetch-Site", "cross-site"}, loop...), 200, "operator@default"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, _, raw := call(t, d, "POST", "/v1/echo/abc", tc.token, `{"value":1}`, tc.header...)
			if res.StatusCode != tc.want || !strings.Contains(raw, tc.wantBy) {
				t.Errorf("got %d %s, want %d %s", res.StatusCode, raw, tc.want, tc.wantBy)
			}
		})
	}
}

func TestSession_CookieCountsWithinTheSite(t *testing.T) {
	t.Parallel()
	d, _ := rig(t, func(c *door.Config) { c.SignIn = "/ui/sign-in" })
	cookie := door.SessionCookie + "=" + doortest.Token(authn.Operator)
	res, _, _ := call(t, d, "POST", "/v1/echo/abc", "", `{"value":1}`, "Cookie", cookie, "Sec-Fetch-Site", "same-origin")
	if res.StatusCode != 200 {
		t.Errorf("same site: %d", res.StatusCode)
	}
	res, p, _ := call(t, d, "POST", "/v1/echo/abc", "", `{"value":1}`, "Cookie", cookie, "Sec-Fetch-Site", "cross-site")
	if res.StatusCode != 403 || p.Code != "cross_origin" {
		t.Errorf("cross site: %d %s", res.StatusCode, p.Code)
	}
	res, p, raw := call(t, d, "POST", "/v1/echo/abc", "", `{"value":1}`, "Cookie", cookie)
	if res.StatusCode != 403 || p.Code != "cross_origin" || !strings.Contains(raw, "does not say which page") {
		t.Errorf("from nowhere: %d %s", res.StatusCode, raw)
	}
}

func TestVerifier_DownIs503(t *testing.T) {
	t.Parallel()
	d, _ := rig(t, func(c *door.Config) { c.Verifier = broken{} })
	res, p, _ := call(t, d, "POST", "/v1/echo/abc", "hf_x", `{"value":1}`)
	if res.StatusCode != 503 || p.Code != "unavailable" || res.Header.Get("Retry-After") == "" {
		t.Errorf("got %d %s", res.StatusCode, p.Code)
	}
}

type broken struct{}

func (broken) Verify(context.Context, string) (authn.Principal, error) {
	return authn.Principal{}, fmt.Errorf("look up token: %w", &pgconn.PgError{Code: "57P03"})
}

func TestRegister_WithoutARoleDoesNotStart(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a route without a role was registered")
		}
	}()
	d, _ := rig(t, nil)
	d.Raw("GET /x", 0, http.NotFoundHandler())
}

// Problem has the name of the door's own.
type Problem struct {
	Shop string `json:"shop"`
}

func TestOpenAPI_TypesOfOneNameAreTwoSchemas(t *testing.T) {
	t.Parallel()
	d, _ := rig(t, nil)
	door.Register(d, huma.Operation{Method: "GET", Path: "/v1/problem"}, authn.Viewer,
		func(context.Context, *struct{}) (*struct{ Body Problem }, error) { return nil, nil })
	_, _, raw := call(t, d, "GET", "/openapi.json", "", "")
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal([]byte(raw), &doc); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, s := range doc.Components.Schemas {
		for _, p := range []string{"shop", "code"} {
			if _, ok := s.Properties[p]; ok {
				found[p] = true
			}
		}
	}
	if !found["shop"] || !found["code"] {
		t.Errorf("a schema is missing: %s", raw)
	}
}

func TestCursor_RoundTripAndGarbage(t *testing.T) {
	t.Parallel()
	type at struct{ ID string }
	p := door.NewPage([]string{"a", "b", "c"}, 2, func(s string) any { return at{s} })
	var got at
	if ok, err := door.DecodeCursor(p.NextCursor, &got); !ok || err != nil || got.ID != "b" {
		t.Errorf("cursor: %v %v %v", ok, err, got)
	}
	if _, err := door.DecodeCursor("!!", &got); err == nil {
		t.Error("garbage is a cursor")
	}
	if last := door.NewPage([]string{"a"}, 2, func(s string) any { return at{s} }); last.NextCursor != "" {
		t.Errorf("the last page has a cursor: %q", last.NextCursor)
	}
}
