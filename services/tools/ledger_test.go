package tools_test

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

func TestCall_ActsOnceAndKeepsDigits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	c := w.call("pay", `{"amount": 9007199254740993}`)
	w.send(c, "")
	a := w.answer(c.CallID, events.CallSucceeded)
	if !strings.Contains(string(a.Result), "9007199254740993") {
		t.Errorf("result %s lost digits", a.Result)
	}
	if a.Epoch != 1 || a.Replayed || a.Key != c.Key {
		t.Errorf("answer %+v", a)
	}
	if keys := w.outside.keysOf(c); !slices.Equal(keys, []string{c.Key}) {
		t.Errorf("Idempotency-Key was %v, want %s", keys, c.Key)
	}
	w.wantEffects(c, 1)
	w.idle()
	if n := w.count(`SELECT count(*) FROM tools.receipts WHERE NOT late AND body->>'status' = '200'`); n != 1 {
		t.Errorf("%d receipts, want 1", n)
	}
}

// Twenty repeats at once, over two processes, make one effect and one answer.
func TestCall_ManyRepeatsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.start()
	c := w.call("pay", `{"amount": 1}`)
	release := w.outside.hold(c)
	var sends sync.WaitGroup
	for i := range 20 {
		sends.Go(func() { w.send(c, ":n"+string(rune('a'+i))) })
	}
	sends.Wait()
	w.until("the call has arrived", func() bool { return w.outside.requests(c) > 0 })
	release()
	w.answer(c.CallID, events.CallSucceeded)
	w.idle()
	w.wantEffects(c, 1)
	first := w.answersOf(c.CallID)[0]
	for _, a := range w.answersOf(c.CallID) {
		if string(a.Result) != string(first.Result) || a.Status != first.Status || a.Epoch != first.Epoch {
			t.Errorf("answers differ: %+v and %+v", first, a)
		}
	}
}

// A nudge comes under a fresh message id and wants the answer again, within the
// stream's dedupe window.
func TestCall_ANudgeIsAnsweredAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	c := w.call("pay", `{"amount": 2}`)
	w.send(c, "")
	first := w.answer(c.CallID, events.CallSucceeded)
	for i, suffix := range []string{":n1", ":n2"} {
		w.send(c, suffix)
		w.until("the answer comes again", func() bool { return len(w.answersOf(c.CallID)) == 2+i })
	}
	for _, a := range w.answersOf(c.CallID) {
		if string(a.Result) != string(first.Result) {
			t.Errorf("answer %+v differs from %+v", a, first)
		}
	}
	if len(w.ids) != 1 {
		t.Errorf("the answers have the causes %v, want one", w.ids)
	}
	w.wantEffects(c, 1)
}

// Two identical calls of one answer are two effects: the key is ours.
func TestCaseD03_IdenticalCallsAreTwoEffects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	run := events.NewRunID()
	a, b := callOf(t, run, 3, "pay", `{"x":1}`), callOf(t, run, 4, "pay", `{"x":1}`)
	w.send(a, "")
	w.send(b, "")
	w.answer(a.CallID, events.CallSucceeded)
	w.answer(b.CallID, events.CallSucceeded)
	w.wantEffects(a, 2)
}

func TestBusinessKey_SecondRunAttachesOrReplays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.start()
	first := w.call("refund", `{"charge":"ch_1","amount":10}`)
	second := w.call("refund", `{"amount":1e1,"charge":"ch_1"}`) // the same meaning
	third := w.call("refund", `{"charge":"ch_1","amount":10.0}`)
	release := w.outside.hold(first)
	w.send(first, "")
	w.until("the first acts", func() bool { return w.outside.requests(first) == 1 })
	w.send(second, "")
	w.until("the second is attached", func() bool {
		return w.count(`SELECT count(*) FROM tools.calls WHERE call_id = $1 AND status = 'open' AND effect_id IS NOT NULL`, string(second.CallID)) == 1
	})
	release()
	a, b := w.answer(first.CallID, events.CallSucceeded), w.answer(second.CallID, events.CallSucceeded)
	w.send(third, "")
	c := w.answer(third.CallID, events.CallSucceeded)
	if string(a.Result) != string(b.Result) || string(a.Result) != string(c.Result) {
		t.Errorf("results differ: %s, %s, %s", a.Result, b.Result, c.Result)
	}
	if a.Replayed || !b.Replayed || !c.Replayed {
		t.Errorf("replayed: %v %v %v, want false true true", a.Replayed, b.Replayed, c.Replayed)
	}
	if keys := w.outside.keysOf(first); !slices.Equal(keys, []string{"refund/ch_1"}) {
		t.Errorf("keys %v", keys)
	}
	w.wantEffects(first, 1)
}

// What surely did not happen frees its business key.
func TestBusinessKey_AFailedKeyIsFree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	first := w.call("refund", `{"charge":"ch_3","mode":"422"}`)
	w.send(first, "")
	a := w.answer(first.CallID, events.CallFailed)
	if a.Error == nil || a.Error.Code != "http_422" || !strings.Contains(a.Error.Message, "no such charge") {
		t.Errorf("the model would read %+v", a.Error)
	}
	if n := w.outside.requests(first); n != 1 {
		t.Errorf("a refusal was sent %d times", n)
	}
	second := w.call("refund", `{"charge":"ch_3","mode":"422"}`)
	w.send(second, "")
	if b := w.answer(second.CallID, events.CallFailed); b.Epoch != 2 || b.Replayed {
		t.Errorf("second answer %+v, want its own attempt in epoch 2", b)
	}
	if n := w.outside.requests(first); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

func TestRead_LeavesNoEffect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	c := w.call("look", `{"what":"shop-04"}`)
	w.send(c, "")
	w.answer(c.CallID, events.CallSucceeded)
	if n := w.count(`SELECT count(*) FROM tools.effects`) + w.count(`SELECT count(*) FROM tools.receipts`); n != 0 {
		t.Errorf("a read left %d rows in the ledger", n)
	}
	if keys := w.outside.keysOf(c); !slices.Equal(keys, []string{""}) {
		t.Errorf("a read carried the key %v", keys)
	}
}

func TestRetry_TransientAnswersUseOneKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	c := w.call("pay_key", `{"mode":"flaky"}`)
	w.send(c, "")
	a := w.answer(c.CallID, events.CallSucceeded)
	if n := w.outside.requests(c); n != 3 || a.Epoch != 3 {
		t.Errorf("%d requests and epoch %d, want 3 and 3", n, a.Epoch)
	}
	if keys := w.outside.keysOf(c); len(keys) != 1 {
		t.Errorf("attempts had the keys %v", keys)
	}
	w.wantEffects(c, 1)
}

// 429 says that nothing was done, so even a tool without keys is sent again,
// not before the hint.
func TestRetry_RateLimitIsNotADoubt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	c := w.call("pay", `{"mode":"429"}`)
	began := time.Now()
	w.send(c, "")
	w.answer(c.CallID, events.CallSucceeded)
	if waited := time.Since(began); waited < 900*time.Millisecond {
		t.Errorf("sent again after %s, before the hint of 1 s", waited)
	}
	w.wantEffects(c, 1)
}

// A long wait is a row: the message is gone and no slot is held.
func TestRetry_ALongWaitIsARow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	c := w.call("gone", `{"a":1}`)
	w.send(c, "")
	w.until("the wait is longer than a message may be held", func() bool {
		return w.count(`SELECT count(*) FROM tools.effects WHERE attempt_id IS NULL AND next_attempt_at > clock_timestamp() + interval '5 s'`) == 1
	})
	w.idle()
	if len(w.answersOf(c.CallID)) != 0 {
		t.Errorf("answered %+v", w.answersOf(c.CallID))
	}
	// The clock runs on.
	if _, err := w.db.Pool.Exec(t.Context(), `UPDATE tools.effects SET next_attempt_at = clock_timestamp(), wake_at = clock_timestamp(), attempts = 9`); err != nil {
		t.Fatal(err)
	}
	a := w.answer(c.CallID, events.CallFailed)
	if a.Error == nil || a.Error.Code != "unreachable" {
		t.Errorf("answer %+v", a)
	}
}

func TestDoubt_ServerErrorIsUnknownWhereKeysAreNotHonoured(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	c := w.call("pay", `{"mode":"500"}`)
	w.send(c, "")
	if a := w.answer(c.CallID, events.CallUnknown); a.InDoubt != "ask" || a.Error == nil {
		t.Errorf("answer %+v", a)
	}
	silent := w.call("pay_silent", `{"mode":"500","n":2}`)
	w.send(silent, "")
	if a := w.answer(silent.CallID, events.CallUnknown); a.InDoubt != "fail" {
		t.Errorf("answer %+v", a)
	}
	w.idle()
	w.wantEffects(c, 1)
	w.wantEffects(silent, 1)
}

func TestCaseD07_TimeoutIsUnknownAndNotFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	c := w.call("pay", `{"slow":true}`)
	release := w.outside.hold(c)
	defer release()
	w.send(c, "")
	if a := w.answer(c.CallID, events.CallUnknown); a.Error == nil || a.Error.Code != "timeout" {
		t.Errorf("answer %+v", a)
	}
	w.wantEffects(c, 1)
}

func TestUnknownTool_IsAnAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	c := w.call("pay", `{}`)
	c.ToolDigest = events.DigestOf([]byte("never applied"))
	w.send(c, "")
	if a := w.answer(c.CallID, events.CallFailed); a.Error == nil || a.Error.Code != "unknown_tool" {
		t.Errorf("answer %+v", a)
	}
}

func TestReject_ToldToTheRunAndKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	c := w.call("pay", `{"a":1}`)
	c.ArgsDigest = events.DigestOf([]byte("something else"))
	w.send(c, "")
	if a := w.answer(c.CallID, events.CallFailed); a.Error == nil || a.Error.Code != "invalid" {
		t.Errorf("answer %+v", a)
	}
	w.publish(events.Message{Subject: events.ToolSubject("default", w.call("pay", `{}`).CallID), ID: "x", Source: "/test", Type: events.TypeCallTool, Data: json.RawMessage(`{"call_id":7}`)})
	w.until("both are kept", func() bool { return w.count(`SELECT count(*) FROM tools.rejected`) == 2 })
	w.idle()
	w.wantEffects(c, 0)
}

// Canary: a secret that the other side echoes reaches no row, no answer and no
// error.
func TestSecrets_StayOutside(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	ok, bad := w.call("secretive", `{"a":1}`), w.call("secretive", `{"mode":"500"}`)
	w.send(ok, "")
	a := w.answer(ok.CallID, events.CallSucceeded)
	if !strings.Contains(string(a.Result), "[redacted]") {
		t.Errorf("the echo is %s", a.Result)
	}
	w.send(bad, "")
	w.until("an attempt has failed", func() bool { return w.count(`SELECT count(*) FROM tools.receipts WHERE body->>'status' = '500'`) > 0 })
	w.mu.Lock()
	heard, err := json.Marshal(w.answers)
	w.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(heard), canary) {
		t.Error("the secret is in an answer")
	}
	for _, table := range []string{"calls", "effects", "receipts", "controls", "announcements", "rejected"} {
		if n := w.count(`SELECT count(*) FROM tools.`+table+` x WHERE x::text LIKE '%' || $1 || '%'`, canary); n != 0 {
			t.Errorf("the secret is in tools.%s", table)
		}
	}
}
