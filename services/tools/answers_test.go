//go:build !holdfast_broken_ledger

package tools_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// The table of answers that are final and of those that are tried again, with the
// same key, never earlier than the other side wishes.
func TestCaseD08_WhichAnswersAreRetried(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	inTwo := time.Now().Add(2 * time.Second).UTC().Format(http.TimeFormat)
	cases := map[string]struct {
		args   string
		status string
		times  int
		after  time.Duration
	}{
		"reset before the first byte": {`{"mode":"reset"}`, events.CallSucceeded, 2, 0},
		"after seconds":               {`{"mode":"once","status":503,"after":"1"}`, events.CallSucceeded, 2, time.Second},
		"after a date":                {`{"mode":"once","status":429,"after":"` + inTwo + `"}`, events.CallSucceeded, 2, 500 * time.Millisecond},
		"after 0":                     {`{"mode":"once","status":429,"after":"0"}`, events.CallSucceeded, 2, 500 * time.Millisecond},
		"after -1":                    {`{"mode":"once","status":503,"after":"-1"}`, events.CallSucceeded, 2, 500 * time.Millisecond},
		"after garbage":               {`{"mode":"once","status":425,"after":"soon"}`, events.CallSucceeded, 2, 500 * time.Millisecond},
		"409 in progress":             {`{"mode":"once","status":409,"after":"1"}`, events.CallSucceeded, 2, time.Second},
	}
	for _, status := range []int{400, 401, 403, 404, 409, 422, 501} {
		cases[fmt.Sprint(status)] = struct {
			args   string
			status string
			times  int
			after  time.Duration
		}{fmt.Sprintf(`{"mode":"always","status":%d}`, status), events.CallFailed, 1, 0}
	}
	for _, status := range []int{408, 425, 429, 500, 502, 503, 504} {
		cases[fmt.Sprint(status)] = struct {
			args   string
			status string
			times  int
			after  time.Duration
		}{fmt.Sprintf(`{"mode":"once","status":%d}`, status), events.CallSucceeded, 2, 500 * time.Millisecond}
	}
	calls := map[string]events.CallTool{}
	for name, tc := range cases {
		calls[name] = w.call("pay_key", tc.args)
		w.send(calls[name], "")
	}
	for name, tc := range cases {
		c := calls[name]
		a := w.answer(c.CallID, tc.status)
		if keys := w.outside.keysOf(c); w.outside.requests(c) != tc.times || len(keys) != 1 || keys[0] != c.Key {
			t.Errorf("%s: %d requests with the keys %v, want %d with %s", name, w.outside.requests(c), keys, tc.times, c.Key)
		}
		if tc.status == events.CallFailed && a.Error.Code != "http_"+name {
			t.Errorf("%s: the model reads %+v", name, a.Error)
		}
		var took time.Duration
		if tc.after > 0 {
			err := w.db.Pool.QueryRow(t.Context(), `SELECT (extract(epoch FROM max(at) - min(at)) * 1000)::bigint * 1000000 FROM tools.receipts
				WHERE effect_id = (SELECT effect_id FROM tools.calls WHERE call_id = $1)`, string(c.CallID)).Scan(&took)
			if err != nil || took < tc.after-20*time.Millisecond {
				t.Errorf("%s: again after %s, want at least %s: %v", name, took, tc.after, err)
			}
		}
	}
}

// A long wait is a row: it holds no message and no slot, outlives the worker, is
// capped, and shows attempts and the next time.
func TestCaseD08_WaitsAreDurable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start()
	asked, greedy := w.call("pay_key", `{"mode":"always","status":503,"after":"30"}`), w.call("pay_key", `{"mode":"always","status":429,"after":"86400"}`)
	w.send(asked, "")
	w.send(greedy, "")
	waiting := func(c events.CallTool, low, high time.Duration) bool {
		return w.count(`SELECT count(*) FROM tools.v_effects WHERE call_id = $1 AND state = $2 AND attempts = 1
			AND next_attempt_at - updated_at BETWEEN $3::bigint * interval '1 ms' AND $4::bigint * interval '1 ms'`,
			string(c.CallID), tools.EffectIntent, low.Milliseconds(), high.Milliseconds()) == 1
	}
	w.until("both wait", func() bool {
		return waiting(asked, 30*time.Second, 40*time.Second) && waiting(greedy, time.Hour, 80*time.Minute)
	})
	w.idle()
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	w.start()
	if _, err := w.db.Pool.Exec(t.Context(), `UPDATE tools.effects SET next_attempt_at = clock_timestamp(), wake_at = clock_timestamp() WHERE call_id = $1`, string(asked.CallID)); err != nil {
		t.Fatal(err)
	}
	w.until("the time has come", func() bool { return w.outside.requests(asked) == 2 })
	if n := w.outside.requests(greedy); n != 1 {
		t.Errorf("the other one was sent %d times", n)
	}
}
