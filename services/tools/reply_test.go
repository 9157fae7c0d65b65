//go:build !holdfast_broken_ledger

package tools_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// reply posts the result of the n-th request about a call.
func (w *world) reply(p *process, c events.CallTool, n int, body string) error {
	w.t.Helper()
	w.outside.mu.Lock()
	url := w.outside.later[string(c.Args)][n]
	w.outside.mu.Unlock()
	token, ok := strings.CutPrefix(url, publicURL+tools.ReplyPath)
	if !ok || len(token) != tools.TokenBytes {
		w.t.Fatalf("the other side was given %q", url)
	}
	return p.service.Reply(context.Background(), tools.Reply{Token: token, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body)})
}

func (w *world) awaits(c events.CallTool) {
	w.t.Helper()
	w.until("the result is awaited", func() bool {
		return w.count(`SELECT count(*) FROM tools.v_awaited WHERE call_id = $1`, string(c.CallID)) == 1
	})
}

// later lets time pass for what is awaited.
func (w *world) later(by string) {
	w.t.Helper()
	if _, err := w.db.Pool.Exec(w.t.Context(), `UPDATE tools.effects SET reply_until = reply_until - $1::interval, wake_at = wake_at - $1::interval`, by); err != nil {
		w.t.Fatal(err)
	}
}

// The other side answers after ten minutes, and the worker that asked was killed
// meanwhile. Nobody and nothing holds the call in between.
func TestCaseD07_TheAnswerComesAfterTenMinutesByCallback(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	worker := w.fork("")
	c := w.call("later", `{"n":1}`)
	w.send(c, "")
	w.awaits(c)
	w.idle()
	if err := worker.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-worker.dead
	survivor := w.start()
	if found, err := survivor.service.Effects(t.Context(), tools.Filter{Namespace: "default", State: tools.EffectAwaiting, Limit: 5}); err != nil || len(found) != 1 || !found[0].Awaiting() {
		t.Errorf("awaiting are %+v, %v", found, err)
	}
	w.send(c, ":n1") // the runner asks where it is
	w.later("10 min")
	w.idle()
	if n := w.outside.requests(c); n != 1 || len(w.answersOf(c.CallID)) != 0 {
		t.Errorf("%d requests, answers %+v", n, w.answersOf(c.CallID))
	}
	if err := w.reply(survivor, c, 0, `{"ok":true,"paid":12345678901234567890}`); err != nil {
		t.Fatal(err)
	}
	if a := w.answer(c.CallID, events.CallSucceeded); a.Epoch != 1 || string(a.Result) != `12345678901234567890` || a.Replayed {
		t.Errorf("answer %+v", a)
	}
	if err := w.reply(survivor, c, 0, `{"ok":true,"paid":12345678901234567890}`); err != nil {
		t.Errorf("the same again: %v", err)
	}
	if err := w.reply(survivor, c, 0, `{"ok":true,"paid":2}`); !errors.Is(err, tools.ErrReplyTaken) {
		t.Errorf("another result: %v", err)
	}
	w.idle()
	w.wantEffects(c, 1)
	if len(w.ids) != 1 {
		t.Errorf("the run heard %v", w.ids)
	}
	token := w.outside.later[string(c.Args)][0]
	token = token[strings.LastIndexByte(token, '/')+1:]
	for _, table := range []string{"calls", "effects", "receipts", "replies", "announcements"} {
		if n := w.count(`SELECT count(*) FROM tools.`+table+` x WHERE x::text LIKE '%' || $1 || '%'`, token); n != 0 {
			t.Errorf("the token is in tools.%s", table)
		}
	}
}

// The result is faster than the answer that announces it, or than its record.
func TestReply_ComesEarly(t *testing.T) {
	t.Parallel()
	t.Run("before the answer", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		p := w.start()
		c := w.call("later", `{"n":2}`)
		release := w.outside.hold(c)
		w.send(c, "")
		w.until("it has arrived", func() bool { return w.outside.requests(c) == 1 })
		if err := w.reply(p, c, 0, `{"ok":true,"paid":true}`); err != nil {
			t.Fatal(err)
		}
		w.answer(c.CallID, events.CallSucceeded)
		release()
		w.until("its own answer is a receipt", func() bool {
			return w.count(`SELECT count(*) FROM tools.receipts WHERE NOT late AND body->>'verdict' = 'accepted'`) == 1
		})
		w.idle()
		if state, epoch := w.effect(c); state != tools.EffectSucceeded || epoch != 1 || w.outside.requests(c) != 1 {
			t.Errorf("%s in epoch %d after %d requests", state, epoch, w.outside.requests(c))
		}
	})
	// After the act and before its record the worker dies: where the key is
	// honoured the call is sent again, and the first address still counts; where
	// it is not, a doubt follows, which the result settles.
	for name, tc := range map[string]struct {
		tool     string
		requests int
		body     string
		status   string
	}{
		"with a key":    {"later_key", 2, `{"paid":true}`, events.CallSucceeded},
		"without":       {"later", 1, `{"ok":true}`, events.CallSucceeded},
		"and it failed": {"later", 1, `{"ok":false}`, events.CallFailed}, // the doubt is about this very attempt
	} {
		t.Run("after a crash "+name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.call(tc.tool, `{"n":3}`)
			w.killed(c, "tools.acted")
			survivor := w.start()
			if tc.requests == 2 {
				w.until("it is sent again", func() bool { return w.outside.requests(c) == 2 })
				w.awaits(c)
			} else {
				w.answer(c.CallID, events.CallUnknown)
			}
			if err := w.reply(survivor, c, 0, tc.body); err != nil {
				t.Fatal(err)
			}
			w.answer(c.CallID, tc.status)
			w.idle()
			if n := w.outside.requests(c); n != tc.requests {
				t.Errorf("%d requests, want %d", n, tc.requests)
			}
			w.wantEffects(c, 1)
		})
	}
}

// Nothing is posted in time: the tool's policy follows, and what is posted after
// that settles the doubt while it is open.
func TestReply_TheWaitEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.outside.lookup = truthful
	p := w.start()
	ask, fail, probe, again := w.call("later_ask", `{"n":4}`), w.call("later_fail", `{"n":5}`), w.call("later_probe", `{"n":6}`), w.call("later_briefly", `{"n":7}`)
	for _, c := range []events.CallTool{ask, fail, probe, again} {
		w.send(c, "")
	}
	if a := w.answer(ask.CallID, events.CallUnknown); a.InDoubt != tools.DoubtAsk || !strings.Contains(a.Error.Message, "has not said within 1s") {
		t.Errorf("answer %+v", a)
	}
	if a := w.answer(fail.CallID, events.CallUnknown); a.InDoubt != tools.DoubtFail {
		t.Errorf("answer %+v", a)
	}
	if a := w.answer(probe.CallID, events.CallSucceeded); string(a.Result) != `"probed"` || a.Settled != "probe" {
		t.Errorf("answer %+v", a)
	}
	w.until("it is sent again under its key", func() bool { return w.outside.requests(again) == 2 })
	for _, c := range []events.CallTool{ask, fail, again} {
		if err := w.reply(p, c, 0, `{"late":true}`); err != nil {
			t.Errorf("%s: %v", c.Tool, err)
		}
		if a := w.answer(c.CallID, events.CallSucceeded); string(a.Result) != `{"late":true}` {
			t.Errorf("%s: %+v", c.Tool, a)
		}
		w.wantEffects(c, 1)
	}
	// The lookup was first: what comes now is kept and changes nothing.
	if err := w.reply(p, probe, 0, `{"late":true}`); !errors.Is(err, tools.ErrReplyTaken) {
		t.Errorf("after the verdict: %v", err)
	}
	if n := w.count(`SELECT count(*) FROM tools.receipts WHERE late AND body->>'callback' = 'true' AND effect_id = $1`, w.effectID(probe)); n != 1 {
		t.Errorf("%d late receipts, want 1", n)
	}
}

// What is posted may say that it failed, or nothing that can be understood. A
// stop and a cancelled run change nothing about an act that was accepted.
func TestReply_WhatItSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start()
	c, bad := w.call("later", `{"n":8}`), w.call("later", `{"n":9}`)
	second := c
	second.CallID = events.NewCallID(c.RunID, 99, 0)
	w.send(c, "")
	w.send(bad, "")
	w.awaits(c)
	w.awaits(bad)
	w.send(second, "") // another call under the key
	w.until("it waits for the same", func() bool { return w.count(`SELECT count(*) FROM tools.v_awaited`) == 3 })
	if _, _, err := p.store.PutStop(t.Context(), tools.Stop{ID: "stop-r", Namespace: "default", Scope: tools.StopAll, Note: "n", By: "maria"}); err != nil {
		t.Fatal(err)
	}
	w.control("revoke:"+string(c.CallID), events.ControlTool{CallID: c.CallID, RunID: c.RunID, Action: events.ControlRevoke})
	w.until("the revocation is taken", func() bool { return w.count(`SELECT count(*) FROM tools.v_landed`) == 1 })
	if err := w.reply(p, c, 0, `text`); !errors.Is(err, tools.ErrBadReply) {
		t.Errorf("what cannot be understood: %v", err)
	}
	w.awaits(bad)
	for _, done := range []events.CallTool{c, bad} {
		body, status := `{"ok":true,"paid":1}`, events.CallSucceeded
		if done.CallID == bad.CallID {
			body, status = `{"ok":false,"error":"no funds"}`, events.CallFailed
		}
		if err := w.reply(p, done, 0, body); err != nil {
			t.Fatal(err)
		}
		a := w.answer(done.CallID, status)
		if status == events.CallFailed && (a.Error.Code != "callback_failed" || !strings.Contains(a.Error.Message, "no funds")) {
			t.Errorf("answer %+v", a.Error)
		}
	}
	if a := w.answer(second.CallID, events.CallSucceeded); !a.Replayed {
		t.Errorf("the other call: %+v", a)
	}
	if err := p.service.Reply(t.Context(), tools.Reply{Token: strings.Repeat("x", tools.TokenBytes)}); !errors.Is(err, tools.ErrNotFound) {
		t.Errorf("an unknown token: %v", err)
	}
}

// An answer at once is the result. What is posted beside it is kept and changes
// nothing.
func TestReply_AfterAnAnswerAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start()
	c := w.call("later_key", `{"mode":"at once"}`)
	w.send(c, "")
	w.answer(c.CallID, events.CallSucceeded)
	if err := w.reply(p, c, 0, `{"second":2}`); !errors.Is(err, tools.ErrReplyTaken) {
		t.Errorf("a second result: %v", err)
	}
	if e, err := p.service.Effect(t.Context(), c.Namespace, w.effectID(c)); err != nil || string(e.Result) != `{"first":1}` {
		t.Errorf("the result is %s, %v", e.Result, err)
	}
}

// Without an address for the result nothing is sent.
func TestReply_NeedsAnAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fork("", envNoURL+"=1")
	c := w.call("later", `{"n":10}`)
	w.send(c, "")
	if a := w.answer(c.CallID, events.CallFailed); a.Error == nil || a.Error.Code != tools.CodeNoPublicURL {
		t.Errorf("answer %+v", a)
	}
	if n := w.outside.requests(c); n != 0 {
		t.Errorf("%d requests", n)
	}
}
