package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// away is a store that cannot be reached.
type away struct{ asked int }

var errAway = &refused{}

type refused struct{}

func (*refused) Error() string   { return "connection refused" }
func (*refused) Timeout() bool   { return false }
func (*refused) Temporary() bool { return true }

func (a *away) Decide(context.Context, approvals.Attempt) (approvals.Request, approvals.Outcome, error) {
	a.asked++
	return approvals.Request{}, "", errAway
}
func (a *away) Defer(context.Context, approvals.Deferral) (approvals.Request, approvals.Outcome, error) {
	return approvals.Request{}, "", errAway
}
func (a *away) Expire(context.Context, int) ([]approvals.Request, error) { return nil, errAway }
func (a *away) Remind(context.Context, int) (int, error)                 { return 0, errAway }
func (a *away) Escalate(context.Context, int) (int, error)               { return 0, errAway }
func (a *away) Get(context.Context, string, events.ApprovalID) (approvals.Request, error) {
	return approvals.Request{}, errAway
}
func (a *away) Notices(context.Context, approvals.NoticeFilter) ([]approvals.Notice, error) {
	return nil, errAway
}
func (a *away) Waiting(context.Context) (approvals.Waiting, error) {
	return approvals.Waiting{}, errAway
}
func (a *away) List(context.Context, approvals.Filter) ([]approvals.Request, error) {
	return nil, errAway
}

func rig(t *testing.T) (*door.Door, *away) {
	t.Helper()
	a := &away{}
	d := door.New(door.Config{Title: "approvals", Version: "test", Verifier: authn.Static{"ann": {Name: "ann", Namespace: "default", Role: authn.Approver}}})
	Register(d, approvals.New(approvals.Config{}, approvals.Deps{Decider: a, Reader: a, Log: slog.New(slog.DiscardHandler)}))
	return d, a
}

func ask(t *testing.T, d *door.Door, method, path, body string) (int, http.Header, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer ann")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	d.Handler().ServeHTTP(w, r)
	text, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, w.Header(), string(text)
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	d, _ := rig(t)
	got := map[string]authn.Role{}
	for _, r := range d.Routes() {
		if r.Pattern != "/openapi.json" {
			got[r.Method+" "+r.Pattern] = r.Role
		}
	}
	want := map[string]authn.Role{
		"GET /v1/approvals":              authn.Viewer,
		"GET /v1/approvals/{id}":         authn.Viewer,
		"POST /v1/approvals/{id}/decide": authn.Approver,
		"POST /v1/approvals/decide":      authn.Approver,
		"GET /v1/approvals/audit":        authn.Admin,
		"POST /v1/grants":                authn.Approver,
		"GET /v1/grants":                 authn.Viewer,
		"GET /v1/grants/{id}":            authn.Viewer,
		"POST /v1/grants/{id}/revoke":    authn.Approver,
		"POST /v1/approvals/{id}/defer":  authn.Approver,
		"POST /v1/approvals/{id}/edit":   authn.Approver,
		"GET /v1/notices":                authn.Viewer,
		"POST /v1/notices/{id}/resend":   authn.Operator,
		"POST /v1/approvals/slack":       door.Public,
		"GET /decide/{token}":            door.Public,
		"POST /decide/{token}":           door.Public,
		"GET /ui/approvals":              authn.Viewer,
		"POST /ui/approvals":             authn.Approver,
		"GET /ui/approvals/{id}":         authn.Viewer,
		"POST /ui/approvals/{id}":        authn.Approver,
		"POST /ui/notices/{id}/resend":   authn.Operator,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("routes (-want +got)\n%s", diff)
	}
}

func TestBadInputIsRefusedBeforeTheStore(t *testing.T) {
	t.Parallel()
	const decide = "/v1/approvals/a1/decide"
	for name, tc := range map[string]struct {
		method, path, body string
		want               int
		wantIn             string
	}{
		"no body":                {"POST", decide, "", 400, ""},
		"broken JSON":            {"POST", decide, "{", 400, ""},
		"no decision":            {"POST", decide, "{}", 422, "decision"},
		"an unknown decision":    {"POST", decide, `{"decision":"perhaps"}`, 422, "approve or reject"},
		"an unknown field":       {"POST", decide, `{"decision":"approve","by":"root"}`, 422, "by"},
		"NUL in the comment":     {"POST", decide, `{"decision":"approve","comment":"\u0000"}`, 422, "NUL"},
		"a comment too long":     {"POST", decide, `{"decision":"reject","comment":"` + strings.Repeat("x", 4001) + `"}`, 422, "4000"},
		"a result with a yes":    {"POST", decide, `{"decision":"approve","result":1}`, 422, "result"},
		"a body over the limit":  {"POST", decide, `{"decision":"approve","comment":"` + strings.Repeat("x", 2<<20) + `"}`, 413, ""},
		"an id that is none":     {"POST", "/v1/approvals/a%00/decide", `{"decision":"approve"}`, 404, ""},
		"a run that is none":     {"GET", "/v1/approvals?run=x", "", 422, "run"},
		"a state that is none":   {"GET", "/v1/approvals?state=open", "", 422, "state"},
		"a cursor of another":    {"GET", "/v1/approvals?cursor=%7B", "", 400, "cursor"},
		"a limit over the limit": {"GET", "/v1/approvals?limit=501", "", 422, "limit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, store := rig(t)
			status, header, body := ask(t, d, tc.method, tc.path, tc.body)
			if status != tc.want || !strings.Contains(body, tc.wantIn) {
				t.Errorf("answer = %d %s, want %d with %q", status, body, tc.want, tc.wantIn)
			}
			if ct := header.Get("Content-Type"); ct != "application/problem+json" {
				t.Errorf("content type = %s", ct)
			}
			if store.asked != 0 {
				t.Error("the store was asked")
			}
		})
	}
}

func TestUnavailableSaysThatRepeatingIsSafe(t *testing.T) {
	t.Parallel()
	d, _ := rig(t)
	for _, tc := range []struct{ method, path, body, wantIn string }{
		{"POST", "/v1/approvals/a1/decide", `{"decision":"approve","result":null}`, "send it again"},
		{"GET", "/v1/approvals/a1", "", ""},
		{"GET", "/v1/approvals", "", ""},
	} {
		status, header, body := ask(t, d, tc.method, tc.path, tc.body)
		if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || !strings.Contains(body, tc.wantIn) {
			t.Errorf("%s %s: %d %s, Retry-After %q; want 503", tc.method, tc.path, status, body, header.Get("Retry-After"))
		}
	}
}

func TestEveryOutcomeHasItsAnswer(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[approvals.Outcome]string{
		approvals.Lost: "409 already_decided", approvals.TooLate: "409 approval_expired", approvals.Gone: "409 approval_withdrawn",
		approvals.Mismatch: "409 digest_mismatch", approvals.WrongKind: "422 wrong_decision", approvals.Unfit: "422 unfit_answer",
	} {
		p, ok := errors.AsType[*door.Problem](problem("a1", &approvals.Conflict{Outcome: outcome}))
		if !ok {
			t.Fatalf("%s is no problem", outcome)
		}
		if got := fmt.Sprintf("%d %s", p.Status, p.Code); got != want {
			t.Errorf("%s: %s, want %s", outcome, got, want)
		}
	}
}
