package console

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

var night = time.Date(2026, 3, 5, 2, 12, 20, 0, time.UTC)

// tl is a row so many milliseconds after the night began.
func tl(seq int64, ms int, kind, data string) TimelineRow {
	return TimelineRow{Seq: seq, At: night.Add(time.Duration(ms) * time.Millisecond), Kind: kind, Cause: fmt.Sprint("c", seq), Data: json.RawMessage(data)}
}

// drawnAs writes a timeline as text: a line each, with its bars as kind name from-to state note.
func drawnAs(t Timeline) string {
	ms := func(at time.Time) int64 { return at.Sub(night).Milliseconds() }
	var b strings.Builder
	for _, line := range t.Lines {
		for i, bar := range line.Bars {
			if i > 0 {
				b.WriteString(" | ")
			}
			fmt.Fprintf(&b, "%d %s %s %d-%d", bar.Seq, bar.Kind, bar.Name, ms(bar.From), ms(bar.To))
			for _, word := range []string{bar.State, bar.Note} {
				if word != "" {
					b.WriteString(" " + word)
				}
			}
		}
		b.WriteString("\n")
	}
	for _, c := range t.Cuts {
		fmt.Fprintf(&b, "cut at %d after %d for %s\n", ms(c.At), c.Lost.Milliseconds(), c.Worker)
	}
	return b.String()
}

const run = "019cbcd7-1c20-7b3e-9f04-5a18b97c2e41"

func answer(ms, epoch int, worker string, calls ...string) string {
	return fmt.Sprintf(`{"model_name":"careful","duration_ms":%d,"epoch":%d,"worker":%q,"cost_micro_usd":54100,"calls":[%s]}`, ms, epoch, worker, strings.Join(calls, ","))
}

func call(n, tool, route string) string {
	return fmt.Sprintf(`{"call_id":"%s-%s","tool":%q,"route":%q,"approval_id":"a-%s","problem":{"code":"budget"},"wait":{"name":"stock"}}`, run, n, tool, route, n)
}

func result(n, tool, status, more string) string {
	return fmt.Sprintf(`{"call_id":"%s-%s","tool":%q,"status":%q%s}`, run, n, tool, status, more)
}

func TestTimelineOf(t *testing.T) {
	t.Parallel()
	start := tl(1, 0, "run_started", `{"accepted_at":"2026-03-05T02:12:20Z"}`)
	effects := map[string]string{"read_reports": "read", "set_price": "write", "price_history": "read"}
	for name, tc := range map[string]struct {
		rows []TimelineRow
		now  int // ms; 0: at the last row
		want string
	}{
		"nothing": {nil, 0, ""},
		"one answer and its call": {[]TimelineRow{start,
			tl(2, 9200, "model_answered", answer(9100, 1, "a", call("2-0", "read_reports", "send"))),
			tl(3, 11300, "tool_completed", result("2-0", "read_reports", "succeeded", "")),
			tl(4, 12000, "run_completed", `{}`)}, 99999,
			"2 model careful 100-9200\n3 read read_reports 9200-11300\n"},
		"what is open goes on to now": {[]TimelineRow{start, tl(2, 1000, "model_answered", answer(900, 1, "a", call("2-0", "set_price", "send")))}, 5000,
			"2 model careful 100-1000\n2 write set_price 1000-5000 open\n"},
		"calls that begin together share a line, unknown ones do not": {[]TimelineRow{start,
			tl(2, 1000, "model_answered", answer(900, 1, "a", call("2-0", "set_price", "send"), call("2-1", "set_price", "send"), call("2-2", "set_price", "send"), call("2-3", "price_history", "send"), call("2-4", "price_history", "answer"))),
			tl(3, 1500, "tool_completed", result("2-1", "set_price", "succeeded", `,"replayed":true`)),
			tl(4, 1700, "tool_completed", result("2-0", "set_price", "failed", `,"error":{"code":"http_500"}`)),
			tl(5, 11000, "tool_completed", result("2-2", "set_price", "unknown", `,"in_doubt":"ask"`)),
			tl(6, 12000, "tool_completed", result("2-3", "price_history", "revoked", ""))}, 20000,
			"2 model careful 100-1000\n4 write set_price 1000-1700 failed http_500 | 3 write set_price 1000-1500 from the ledger\n5 write set_price 1000-11000 unknown nobody knows whether it happened\n" +
				"6 read price_history 1000-12000 refused revoked | 2 read price_history 1000-1000 refused budget\n5 person did set_price happen? 11000-20000 open\n"},
		"a doubt is settled": {[]TimelineRow{start,
			tl(2, 1000, "model_answered", answer(900, 1, "a", call("2-0", "set_price", "send"))),
			tl(3, 2000, "tool_completed", result("2-0", "set_price", "unknown", `,"in_doubt":"ask"`)),
			tl(4, 9000, "approval_decided", `{"call_id":"`+run+`-2-0","approval_id":"d","kind":"doubt","decision":"happened","by":"maria"}`),
			tl(5, 9100, "tool_completed", result("2-0", "set_price", "succeeded", `,"settled":"maria"`))}, 0,
			"2 model careful 100-1000\n3 write set_price 1000-2000 unknown nobody knows whether it happened\n4 person did set_price happen? 2000-9000 happened by maria\n5 write set_price 9100-9100 settled by maria\n"},
		"people are waited for; a yes begins the call, a no does not": {[]TimelineRow{start,
			tl(2, 1000, "model_answered", answer(900, 1, "a", call("2-0", "set_price", "ask"), call("2-1", "set_price", "ask"), call("2-2", "set_price", "ask"))),
			tl(3, 5000, "approval_decided", `{"call_id":"`+run+`-2-0","approval_id":"a-2-0","kind":"action","decision":"approved","by":"maria","edited":true}`),
			tl(4, 6000, "approval_decided", `{"call_id":"`+run+`-2-1","approval_id":"a-2-1","kind":"action","decision":"rejected","by":"jonas"}`),
			tl(5, 6500, "tool_completed", result("2-0", "set_price", "succeeded", ""))}, 9000,
			"2 model careful 100-1000\n3 person approve set_price 1000-5000 approved by maria | 4 person approve set_price 1000-6000 refused rejected by jonas | 2 person approve set_price 1000-9000 open\n5 write set_price 5000-6500 changed by maria\n"},
		"a worker goes away while it asks": {[]TimelineRow{start,
			tl(2, 1000, "model_answered", answer(900, 1, "a", call("2-0", "read_reports", "send"))),
			tl(3, 2000, "tool_completed", result("2-0", "read_reports", "succeeded", "")),
			tl(4, 30000, "model_answered", answer(14000, 3, "b"))}, 0,
			"2 model careful 100-1000\n3 read read_reports 1000-2000\n4 lost careful 2000-16000 failed lost\n4 model careful 16000-30000 begun again\ncut at 16000 after 14000 for b\n"},
		"a claim that is kept has its number and its cause": {[]TimelineRow{start,
			{2, night.Add(time.Second), "model_answered", "start", "a", json.RawMessage(answer(900, 1, "a", call("2-0", "plan", "here")))},
			{3, night.Add(time.Second), "plan_changed", "start", "a", json.RawMessage(`{"call_id":"` + run + `-2-0"}`)},
			{4, night.Add(2 * time.Second), "model_answered", "start", "a", json.RawMessage(answer(900, 1, "a"))},
			{5, night.Add(9 * time.Second), "model_answered", "start", "b", json.RawMessage(answer(900, 2, "b"))}}, 0,
			"2 model careful 100-1000\n2 read plan 1000-1000\n4 model careful 1100-2000\n5 lost careful 2000-8100 failed lost\n5 model careful 8100-9000 begun again\ncut at 8100 after 6100 for b\n"},
		"of rows in the middle nothing is known that came before": {[]TimelineRow{
			tl(70, 0, "tool_completed", result("60-0", "read_reports", "succeeded", "")),
			tl(71, 9000, "model_answered", answer(900, 40, "b"))}, 0,
			"70 read read_reports 0-0\n71 model careful 8100-9000\n"},
		"a model fails, is asked again and another goes on": {[]TimelineRow{start,
			tl(2, 3000, "model_failed", `{"code":"overloaded","epoch":1,"retry_at":"2026-03-05T02:12:33Z"}`),
			tl(3, 13000, "timer_fired", `{"timer":"retry-2"}`),
			tl(4, 15000, "model_failed", `{"code":"overloaded","epoch":2,"next_model":"second"}`),
			tl(5, 16000, "model_failed", `{"code":"circuit_open","epoch":2,"unasked":true}`),
			tl(6, 18000, "run_failed", `{"error":{"code":"overloaded","message":"m"}}`)}, 99999,
			"2 model model 0-3000 failed overloaded\n3 idle before it is asked again 3000-13000\n4 model model 13000-15000 failed overloaded, second goes on\n5 model model 15000-16000 refused not asked: circuit_open\n"},
		"waits for a time, a signal and an order": {[]TimelineRow{start,
			tl(2, 1000, "model_answered", answer(900, 1, "a", call("2-0", "sleep", "here"), call("2-1", "wait", "wait"), call("2-2", "wait", "wait"))),
			tl(3, 1000, "sleep_started", `{"call_id":"`+run+`-2-0","until":"2026-03-05T03:00:00Z"}`),
			tl(4, 2000, "paused", `{"by":"operator"}`),
			tl(5, 3000, "resumed", `{"by":"operator"}`),
			tl(6, 4000, "timer_fired", `{"timer":"sleep-2-0"}`),
			tl(7, 5000, "signal_taken", `{"call_id":"`+run+`-2-1"}`),
			tl(8, 6000, "timer_fired", `{"timer":"wait-2-2"}`),
			tl(9, 7000, "turn_awaited", `{"model":"careful"}`),
			tl(10, 8000, "timer_fired", `{"timer":"turn-9"}`)}, 0,
			"2 model careful 100-1000\n2 read sleep 1000-1000\n7 idle signal stock 1000-5000\n8 idle signal stock 1000-6000 failed none came\n6 idle sleeps 1000-4000\n4 idle paused 2000-3000 by operator\n10 idle turn of careful 7000-8000\n"},
		"what is held by a pause begins when it ends": {[]TimelineRow{start,
			tl(2, 1000, "model_answered", answer(900, 1, "a", call("2-0", "set_price", "hold"))),
			tl(3, 9000, "resumed", `{"release":[`+call("2-0", "set_price", "send")+`]}`),
			tl(4, 9500, "tool_completed", result("2-0", "set_price", "succeeded", ""))}, 0,
			"2 model careful 100-1000\n4 write set_price 9000-9500\n"},
		"a flow starts runs, calls and asks": {[]TimelineRow{tl(1, 0, "run_started", `{"accepted_at":"2026-03-05T02:12:10Z"}`),
			tl(2, 1000, "children_started", `{"step":"check","children":[{"item":"check/0","ref":{"name":"shop"}},{"item":"check/1","ref":{"name":"shop"}}]}`),
			tl(3, 4000, "child_completed", `{"item":"check/1","status":"failed","error":{"code":"max_tokens"}}`),
			tl(4, 5000, "item_retried", `{"step":"check","index":1,"attempt":2}`),
			tl(5, 6000, "timer_fired", `{"timer":"again-check-1-2"}`),
			tl(6, 6000, "items_started", `{"step":"check","items":[{"item":"check/1/2","child":{"item":"check/1/2","ref":{"name":"shop"}}},{"item":"post/0","call":`+call("6-0", "set_price", "send")+`}]}`),
			tl(7, 7000, "child_completed", `{"item":"check/0","status":"completed"}`)}, 8000,
			"1 idle queued -10000-0 until a runner took it\n7 child check/0 1000-7000 | 3 child check/1 1000-4000 failed max_tokens\n5 idle check/1 again 5000-6000\n6 child check/1/2 6000-8000 open\n6 write set_price 6000-8000 open\n"},
		"damaged rows": {[]TimelineRow{tl(1, 0, "run_started", `"x"`), tl(2, 1000, "model_answered", `[]`), tl(3, 2000, "tool_completed", `{"call_id":7}`), tl(4, 3000, "nobody_knows", ``), tl(5, 4000, "child_completed", `{"item":"x"}`)}, 0,
			"2 model model 1000-1000\n3 write  2000-2000 failed\n"},
	} {
		now := night.Add(time.Duration(tc.now) * time.Millisecond)
		if tc.now == 0 {
			now = time.Time{}
		}
		if got := drawnAs(TimelineOf(tc.rows, effects, now)); got != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, tc.want)
		}
	}
}
