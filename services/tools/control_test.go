package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/services/tools/httpapi"
)

func revoke(c events.CallTool) events.ControlTool {
	return events.ControlTool{CallID: c.CallID, RunID: c.RunID, Action: events.ControlRevoke, Reason: "cancelled"}
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()

	t.Run("before the call came", func(t *testing.T) {
		c := w.call("pay", `{"r":1}`)
		w.control("revoke:"+string(c.CallID), revoke(c))
		w.answer(c.CallID, events.CallRevoked)
		w.send(c, "")
		w.idle()
		w.wantEffects(c, 0)
		if n := w.count(`SELECT count(*) FROM tools.rejected`); n != 0 {
			t.Errorf("%d messages were rejected", n)
		}
	})
	t.Run("while it waits for its next attempt", func(t *testing.T) {
		c := w.call("gone", `{"r":2}`)
		w.send(c, "")
		w.until("it waits", func() bool {
			return w.count(`SELECT count(*) FROM tools.calls c JOIN tools.effects e USING (effect_id) WHERE c.call_id = $1 AND e.attempt_id IS NULL AND e.attempts > 1`, string(c.CallID)) == 1
		})
		w.control("revoke:"+string(c.CallID), revoke(c))
		w.answer(c.CallID, events.CallRevoked)
		if state, _ := w.effect(c); state != tools.EffectFailed {
			t.Errorf("the effect is %s, want failed: nobody wants it and it did not happen", state)
		}
	})
	t.Run("while it acts its true outcome is awaited", func(t *testing.T) {
		c := w.call("pay_slow", `{"r":3}`)
		release := w.outside.hold(c)
		w.send(c, "")
		w.until("it acts", func() bool { return w.outside.requests(c) == 1 })
		w.control("revoke:"+string(c.CallID), revoke(c))
		w.until("the revoke is taken", func() bool {
			return w.count(`SELECT count(*) FROM tools.v_landed WHERE id = $1`, "revoke:"+string(c.CallID)) == 1
		})
		release()
		w.answer(c.CallID, events.CallSucceeded)
		w.wantEffects(c, 1)
		for _, a := range w.answersOf(c.CallID) {
			if a.Status == events.CallRevoked {
				t.Error("an act that had begun was answered as revoked")
			}
		}
	})
	t.Run("after its end the answer comes again", func(t *testing.T) {
		c := w.call("pay", `{"r":4}`)
		w.send(c, "")
		w.answer(c.CallID, events.CallSucceeded)
		w.control("revoke:"+string(c.CallID), revoke(c))
		w.idle()
		if all := w.answersOf(c.CallID); all[len(all)-1].Status != events.CallSucceeded {
			t.Errorf("answers %+v", all)
		}
	})
}

// doubtful makes an effect in doubt and returns its id.
func (w *world) doubtful(c events.CallTool) string {
	w.t.Helper()
	w.send(c, "")
	w.answer(c.CallID, events.CallUnknown)
	var id string
	if err := w.db.Pool.QueryRow(w.t.Context(), `SELECT effect_id FROM tools.calls WHERE call_id = $1`, string(c.CallID)).Scan(&id); err != nil {
		w.t.Fatal(err)
	}
	return id
}

// doorOf serves the door of p; the token is the name of a role.
func (w *world) doorOf(p *process) *httptest.Server {
	d := door.New(door.Config{Title: "tools", Version: "test", Verifier: roles{}})
	httpapi.Register(d, p.service)
	srv := httptest.NewServer(d.Handler())
	w.t.Cleanup(srv.Close)
	return srv
}

func (w *world) http(srv *httptest.Server, role, method, path, body string, out any) int {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, srv.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+role)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if out != nil {
		if err := json.Unmarshal(b, out); err != nil {
			w.t.Fatalf("%s %s: %s: %v", method, path, b, err)
		}
	}
	return resp.StatusCode
}

func TestDoor_ResolveOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	srv := w.doorOf(w.start())
	c := w.call("pay", `{"mode":"500","d":1}`)
	id := w.doubtful(c)

	var shown httpapi.Effect
	if code := w.http(srv, "viewer", "GET", "/v1/effects/"+id, "", &shown); code != 200 || shown.State != "unknown" || !strings.Contains(string(shown.Receipts), `"status":500`) {
		t.Errorf("%d: %+v", code, shown)
	}
	if code := w.http(srv, "operator", "POST", "/v1/effects/"+id+"/resolve", `{"verdict":"happened"}`, nil); code != 403 {
		t.Errorf("an operator's verdict was answered %d, want 403", code)
	}
	if code := w.http(srv, "elsewhere", "POST", "/v1/effects/"+id+"/resolve", `{"verdict":"happened"}`, nil); code != 404 {
		t.Errorf("another namespace's verdict was answered %d, want 404", code)
	}
	if code := w.http(srv, "admin", "POST", "/v1/effects/"+id+"/resolve", `{"verdict":"perhaps"}`, nil); code != 422 {
		t.Errorf("an unknown verdict was answered %d, want 422", code)
	}

	// Twelve verdicts at once: one counts.
	var wg sync.WaitGroup
	codes := make([]int, 12)
	for i := range codes {
		wg.Go(func() {
			verdict := []string{`{"verdict":"happened","result":{"amount":9007199254740993}}`, `{"verdict":"give_up"}`, `{"verdict":"happened"}`}[i%3]
			codes[i] = w.http(srv, []string{"admin", "admin2"}[i%2], "POST", "/v1/effects/"+id+"/resolve", verdict, nil)
		})
	}
	wg.Wait()
	for _, code := range codes {
		if code != 200 && code != 409 {
			t.Errorf("answers %v", codes)
			break
		}
	}
	if !slices.Contains(codes, 200) || w.count(`SELECT count(*) FROM tools.controls WHERE applied`) != 1 {
		t.Errorf("answers %v; want one verdict", codes)
	}
}

func TestDoor_HappenedReachesTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	srv := w.doorOf(w.start())
	c := w.call("pay", `{"mode":"500","d":2}`)
	id := w.doubtful(c)
	var shown httpapi.Effect
	if code := w.http(srv, "admin", "POST", "/v1/effects/"+id+"/resolve", `{"verdict":"happened","result":{"amount":9007199254740993}}`, &shown); code != 200 || shown.SettledBy != "admin" {
		t.Fatalf("%d %+v", code, shown)
	}
	if a := w.answer(c.CallID, events.CallSucceeded); a.Settled != "admin" || string(a.Result) != `{"amount":9007199254740993}` {
		t.Errorf("answer %+v", a)
	}
	if code := w.http(srv, "admin", "POST", "/v1/effects/"+id+"/resolve", `{"verdict":"happened"}`, nil); code != 200 {
		t.Errorf("the same verdict again was answered %d, want 200", code)
	}
	var problem struct{ Code, Detail string }
	if code := w.http(srv, "admin2", "POST", "/v1/effects/"+id+"/resolve", `{"verdict":"give_up"}`, &problem); code != 409 || !strings.Contains(problem.Detail, "admin") {
		t.Errorf("%d %+v; want a conflict that names who resolved it", code, problem)
	}
	w.wantEffects(c, 1)
}

// The verdict "it did not happen" acts again, although NATS is away when it is
// given.
func TestDoor_NotHappenedActsAfterNATSIsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	srv := w.doorOf(w.start())
	c := w.call("pay", `{"mode":"500","d":3}`)
	id := w.doubtful(c)
	w.idle()
	w.nats.Stop()
	if code := w.http(srv, "admin", "POST", "/v1/effects/"+id+"/resolve", `{"verdict":"not_happened"}`, nil); code != 200 {
		t.Errorf("answered %d with NATS away, want 200", code)
	}
	w.nats.Start()
	w.until("it acts again", func() bool { return w.outside.requests(c) == 2 })
	w.until("it is in doubt again", func() bool {
		_, epoch := w.effect(c)
		all := w.answersOf(c.CallID)
		return all[len(all)-1].Epoch == epoch && epoch == 3
	})
}

func TestDoor_ListsDoubtsFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	srv := w.doorOf(w.start())
	doubt := w.doubtful(w.call("pay", `{"mode":"500","d":4}`))
	run := events.NewRunID()
	for i := range 5 {
		c := callOf(t, run, i+1, "pay", fmt.Sprintf(`{"i":%d}`, i))
		w.send(c, "")
		w.answer(c.CallID, events.CallSucceeded)
	}
	var ids []string
	cursor := ""
	for range 10 {
		var page door.Page[httpapi.Effect]
		if code := w.http(srv, "viewer", "GET", "/v1/effects?limit=2&cursor="+cursor, "", &page); code != 200 {
			t.Fatalf("%d", code)
		}
		for _, e := range page.Items {
			ids = append(ids, e.EffectID)
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if len(ids) != 6 || ids[0] != doubt || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != 6 {
		t.Errorf("listed %v, want six with %s first", ids, doubt)
	}
	for query, want := range map[string]int{"?state=unknown": 1, "?run=" + string(run): 5, "?tool=refund": 0, "?tool=pay&state=succeeded": 5} {
		var page door.Page[httpapi.Effect]
		if code := w.http(srv, "viewer", "GET", "/v1/effects"+query, "", &page); code != 200 || len(page.Items) != want {
			t.Errorf("%s: %d with %d items, want %d", query, code, len(page.Items), want)
		}
	}
	var page door.Page[httpapi.Effect]
	if code := w.http(srv, "elsewhere", "GET", "/v1/effects", "", &page); code != 200 || len(page.Items) != 0 {
		t.Errorf("another namespace sees %d effects (%d)", len(page.Items), code)
	}
	if code := w.http(srv, "viewer", "GET", "/v1/effects/e-0", "", nil); code != 404 {
		t.Errorf("an unknown effect was answered %d", code)
	}
}

// A second call under a doubtful business key is in the same doubt and gets the
// same verdict.
func TestSettle_AnswersEveryCallOfTheEffect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	first, second := w.call("refund", `{"charge":"ch_9","mode":"500"}`), w.call("refund", `{"charge":"ch_9","mode":"500"}`)
	w.doubtful(first)
	w.send(second, "")
	if a := w.answer(second.CallID, events.CallUnknown); !a.Replayed || a.InDoubt != "ask" {
		t.Errorf("answer %+v", a)
	}
	w.control("settle:second", events.ControlTool{CallID: second.CallID, RunID: second.RunID, Action: events.ControlSettle, Verdict: events.Happened, Epoch: 1, By: "ines"})
	for _, c := range []events.CallTool{first, second} {
		if a := w.answer(c.CallID, events.CallSucceeded); a.Settled != "ines" {
			t.Errorf("answer %+v", a)
		}
	}
	w.wantEffects(first, 1)
}

func TestSettle_TheQuestionOfAnOldEpochIsLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	c := w.call("pay", `{"mode":"500","d":6}`)
	w.doubtful(c)
	w.control("settle:old", events.ControlTool{CallID: c.CallID, RunID: c.RunID, Action: events.ControlSettle, Verdict: events.NotHappened, Epoch: 7, By: "ines"})
	w.until("it is taken", func() bool { return w.count(`SELECT count(*) FROM tools.controls WHERE NOT applied`) == 1 })
	w.idle()
	if n := w.outside.requests(c); n != 1 {
		t.Errorf("%d requests after a verdict on another epoch", n)
	}
}

// roles takes the name of a role as a token.
type roles struct{}

func (roles) Verify(_ context.Context, token string) (authn.Principal, error) {
	if token == "elsewhere" {
		return authn.Principal{Name: token, Namespace: "acme", Role: authn.Admin}, nil
	}
	role, err := authn.ParseRole(strings.TrimRight(token, "2"))
	if err != nil {
		return authn.Principal{}, authn.ErrUnknownToken
	}
	return authn.Principal{Name: token, Namespace: "default", Role: role}, nil
}

// The call that opened a key is taken back while it waits: another that wants the
// same goes on in its place.
func TestRevoke_AnotherCallInherits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start()
	stop := w.halt(p, tools.StopAll, "")
	first, second := w.call("refund", `{"charge":"ch_9"}`), w.call("refund", `{"charge":"ch_9"}`)
	w.send(first, "")
	w.held(1)
	w.send(second, "")
	w.until("the second is attached", func() bool {
		return w.count(`SELECT count(*) FROM tools.calls WHERE call_id = $1 AND status = 'open' AND effect_id IS NOT NULL`, string(second.CallID)) == 1
	})
	w.control("revoke:"+string(first.CallID), revoke(first))
	w.answer(first.CallID, events.CallRevoked)
	w.release(p, stop)
	w.answer(second.CallID, events.CallSucceeded)
	w.wantEffects(second, 1)
}
