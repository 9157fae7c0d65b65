package door_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
)

// turning is a verifier whose answer a test changes.
type turning struct {
	mu    sync.Mutex
	who   authn.Principal
	err   error
	asked atomic.Int64
}

func (v *turning) Verify(context.Context, string) (authn.Principal, error) {
	v.asked.Add(1)
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.who, v.err
}

func (v *turning) turn(who authn.Principal, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.who, v.err = who, err
}

// TestLasting_EndsWithItsToken: a request that lasts ends when its token does not count
// any more or is another's, and goes on while nobody can say. One that asks nobody who
// it is goes on.
func TestLasting_EndsWithItsToken(t *testing.T) {
	t.Parallel()
	maria := authn.Principal{Name: "maria", Namespace: "default", Role: authn.Operator}
	with := func(change func(*authn.Principal)) authn.Principal { p := maria; change(&p); return p }
	away := errors.New("the database is away")
	for name, tc := range map[string]struct {
		who  authn.Principal
		err  error
		ends bool
	}{
		"nothing changes":       {maria, nil, false},
		"other groups":          {with(func(p *authn.Principal) { p.Groups = []string{"night"} }), nil, false},
		"the token was revoked": {authn.Principal{}, authn.ErrUnknownToken, true},
		"nobody can say":        {authn.Principal{}, away, false},
		"a smaller role":        {with(func(p *authn.Principal) { p.Role = authn.Viewer }), nil, true},
		"another namespace":     {with(func(p *authn.Principal) { p.Namespace = "other" }), nil, true},
		"somebody else":         {with(func(p *authn.Principal) { p.Name = "jonas" }), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := &turning{who: maria}
			d := door.New(door.Config{Title: "test", Version: "1", Verifier: v, Recheck: 5 * time.Millisecond})
			begun, ended := make(chan struct{}), make(chan struct{})
			d.Raw("GET /v1/long", authn.Viewer, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				ctx, cancel := door.Lasting(r)
				defer cancel()
				close(begun)
				<-ctx.Done()
				close(ended)
			}))
			ctx, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/long", nil)
			r.Header.Set("Authorization", "Bearer "+authn.TokenPrefix+"x")
			go d.Handler().ServeHTTP(httptest.NewRecorder(), r)
			<-begun
			v.turn(tc.who, tc.err)
			if !tc.ends {
				for first := v.asked.Load(); v.asked.Load() < first+3; time.Sleep(time.Millisecond) {
					select {
					case <-ended:
						t.Fatal("it ended")
					case <-t.Context().Done():
						t.Fatal("it is not looked at again")
					default:
					}
				}
				v.turn(authn.Principal{}, authn.ErrUnknownToken)
			}
			select {
			case <-ended:
			case <-time.After(time.Minute):
				t.Error("it goes on")
			}
		})
	}
}

// TestLasting_WithoutAToken: what is public, or asks a development server, lasts until
// its client goes.
func TestLasting_WithoutAToken(t *testing.T) {
	t.Parallel()
	for name, role := range map[string]authn.Role{"public": door.Public, "the developer's own": authn.Admin} {
		v := &turning{err: authn.ErrUnknownToken}
		d := door.New(door.Config{Title: "test", Version: "1", Verifier: v, Recheck: time.Millisecond, DevPrincipal: &authn.Principal{Name: "dev", Namespace: "default", Role: authn.Admin}})
		d.Raw("GET /v1/long", role, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := door.Lasting(r)
			defer cancel()
			select {
			case <-ctx.Done():
				w.WriteHeader(http.StatusTeapot)
			case <-time.After(50 * time.Millisecond):
			}
		}))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/v1/long", nil)
		r.RemoteAddr = "127.0.0.1:1"
		rec := httptest.NewRecorder()
		d.Handler().ServeHTTP(rec, r)
		if rec.Code != http.StatusOK || v.asked.Load() != 0 {
			t.Errorf("%s: %d after %d looks", name, rec.Code, v.asked.Load())
		}
	}
}
