package doortest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
)

// Auditor keeps acts in memory. With Broken it keeps nothing and says so.
type Auditor struct {
	mu     sync.Mutex
	Begun  []door.AuditEntry
	Ended  map[string]door.AuditEntry
	Broken bool
}

var _ door.Auditor = (*Auditor)(nil)

// Begin implements door.Auditor.
func (a *Auditor) Begin(_ context.Context, e door.AuditEntry) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.Broken {
		return errors.New("the audit is away")
	}
	a.Begun = append(a.Begun, e)
	return nil
}

// End implements door.Auditor.
func (a *Auditor) End(_ context.Context, e door.AuditEntry) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.Ended == nil {
		a.Ended = map[string]door.AuditEntry{}
	}
	a.Ended[e.ID] = e
	return nil
}

func (a *Auditor) take() (begun []door.AuditEntry, ended map[string]door.AuditEntry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	begun, ended = a.Begun, a.Ended
	a.Begun, a.Ended = nil, nil
	return begun, ended
}

// Audits sends every route of d a request as each role and demands one entry with an
// end from each that changes something and knows who asks, also when the role may
// not; and none from the others. While a cannot keep anything, nothing may be
// done. It ranges over the registered routes. The door must verify with Verifier
// and audit with a.
func Audits(t *testing.T, d *door.Door, a *Auditor) {
	t.Helper()
	srv := httptest.NewServer(d.Handler())
	t.Cleanup(srv.Close)
	for _, route := range d.Routes() {
		name := route.Method + " " + route.Pattern
		want := route.Role != door.Public && route.Method != http.MethodGet && !route.Work
		for _, role := range []authn.Role{authn.Viewer, authn.Admin} {
			got := send(t, srv, route, Token(role))
			begun, ended := a.take()
			if !want {
				if len(begun) > 0 {
					t.Errorf("%s changes nothing, or asks for nobody, and is in the audit", name)
				}
				continue
			}
			if len(begun) != 1 {
				t.Errorf("%s as %s is %d times in the audit", name, role, len(begun))
				continue
			}
			e := begun[0]
			if e.Actor != role.String() || e.Namespace != "default" || e.Action == "" || e.RequestID == "" || e.ID == "" {
				t.Errorf("%s as %s: %+v", name, role, e)
			}
			if end := ended[e.ID].Status; e.Status != got.status && end != got.status {
				t.Errorf("%s as %s was answered %d and ended as %d", name, role, got.status, end)
			}
		}
		if !want {
			continue
		}
		a.Broken = true
		if got := send(t, srv, route, Token(authn.Admin)); got.status != http.StatusServiceUnavailable {
			t.Errorf("%s: %d while the audit is away, want 503", name, got.status)
		}
		a.Broken = false
		if _, ended := a.take(); len(ended) > 0 {
			t.Errorf("%s was done while the audit was away", name)
		}
	}
}
