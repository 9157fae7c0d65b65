package console

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
)

func said(seq int64, kind, data string) events.RunEvent {
	return events.RunEvent{Seq: seq, At: night, Kind: kind, Data: json.RawMessage(data)}
}

// spoken writes a chat as text.
func spoken(entries []ChatEntry) string {
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "%d %s %s: %s", e.Seq, e.Who, e.Name, e.Text)
		if e.Thinking != "" {
			fmt.Fprintf(&b, " (%s)", e.Thinking)
		}
		if e.Cut {
			b.WriteString(" …")
		}
		b.WriteString("\n")
		for _, c := range e.Calls {
			fmt.Fprintf(&b, "  %s %s %s [%s] = %s @%d %s\n", c.Tool, c.Args, c.State, c.Note, c.Result, c.ResultSeq, c.Child)
		}
	}
	return b.String()
}

func TestChatOf(t *testing.T) {
	t.Parallel()
	asks := func(text string, calls ...string) string {
		return fmt.Sprintf(`{"model_name":"careful","text":%q,"calls":[%s]}`, text, strings.Join(calls, ","))
	}
	args := func(n, tool, route string) string {
		return strings.Replace(call(n, tool, route), `"tool"`, `"args":{"n":12345678901234567890},"tool"`, 1)
	}
	const shown = "{\n  \"n\": 12345678901234567890\n}"
	for name, tc := range map[string]struct {
		rows []events.RunEvent
		want string
	}{
		"a call and its result": {[]events.RunEvent{said(1, "run_started", `{}`), said(2, "model_answered", asks("I look.", args("2-0", "read", "send"), args("2-1", "read", "answer"))), said(3, "tool_completed", result("2-0", "read", "succeeded", `,"result":"<b>hi</b>"`))},
			"2 agent careful: I look.\n  read " + shown + " succeeded [] = <b>hi</b> @3 \n  read " + shown + " refused [budget] =  @0 \n"},
		"a result without its call": {[]events.RunEvent{said(70, "tool_completed", result("60-0", "read", "failed", `,"error":{"code":"http_500","message":"no"}`))},
			"70 tool read: \n  read  failed [http_500: no] =  @70 \n"},
		"people": {[]events.RunEvent{said(2, "model_answered", asks("", args("2-0", "pay", "ask"), args("2-1", "pay", "ask"))),
			said(3, "approval_decided", `{"call_id":"`+run+`-2-0","kind":"action","decision":"approved","by":"maria","args":{"n":1}}`),
			said(4, "approval_decided", `{"call_id":"`+run+`-2-1","kind":"action","decision":"rejected","by":"jonas"}`),
			said(5, "tool_completed", result("2-0", "pay", "unknown", ``)),
			said(6, "message_received", `{"text":"Try the other.","principal":"ada"}`)},
			"2 agent careful: \n  pay {\n  \"n\": 1\n} unknown [changed by maria] =  @5 \n  pay " + shown + " refused [rejected by jonas] =  @0 \n6 person ada: Try the other.\n"},
		"thoughts": {[]events.RunEvent{
			said(2, "model_answered", `{"model":"m","text":"a","raw":"{\"content\":[{\"type\":\"thinking\",\"thinking\":\"deep\",\"signature\":\"zz\"},{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"tool_use\",\"input\":{\"thinking\":\"no\"}}]}"}`),
			said(3, "model_answered", `{"model":"m","text":"b","raw":"{\"choices\":[{\"message\":{\"reasoning_content\":\"far\",\"content\":\"b\"}}]}"}`),
			said(4, "model_answered", `{"model":"m","text":"c","raw":"{\"output\":[{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"wide\"}]}]}"}`),
			said(5, "model_answered", `{"model":"m","text":"d","raw":"{broken"}`)},
			"2 agent m: a (deep)\n3 agent m: b (far)\n4 agent m: c (wide)\n5 agent m: d\n"},
		"waits, runs and signals": {[]events.RunEvent{said(2, "model_answered", asks("x", call("2-0", "sleep", "here"), call("2-1", "wait", "wait"), call("2-2", "start_run", "here"), call("2-3", "ask_person", "here"), call("2-4", "plan", "here"))),
			said(3, "sleep_started", `{"call_id":"`+run+`-2-0","until":"2026-03-05T03:00:00Z"}`), said(4, "child_started", `{"call_id":"`+run+`-2-2","item":"call/2-2","run_id":"`+run+`"}`),
			said(5, "question_asked", `{"call_id":"`+run+`-2-3","approval_id":"q","question":{"text":"Match it?"}}`), said(6, "plan_changed", `{"call_id":"`+run+`-2-4"}`),
			said(7, "signal_received", `{"id":"s","data":{"stock":4}}`), said(8, "signal_taken", `{"call_id":"`+run+`-2-1","signal_id":"s"}`),
			said(9, "timer_fired", `{"timer":"sleep-2-0"}`), said(10, "child_completed", `{"item":"call/2-2","status":"completed","output":"done"}`),
			said(11, "approval_decided", `{"call_id":"`+run+`-2-3","kind":"question","decision":"answered","by":"maria","result":"yes"}`)},
			"2 agent careful: x\n  sleep  succeeded [until 2026-03-05 03:00:00 UTC] =  @9 \n  wait  succeeded [] = {\n  \"stock\": 4\n} @8 \n  start_run  succeeded [] = done @10 " + run + "\n  ask_person  succeeded [answered by maria] = yes @0 \n  plan  succeeded [] =  @6 \n"},
		"what the talk goes through": {[]events.RunEvent{said(2, "model_failed", `{"code":"overloaded","message":"the provider is overloaded"}`), said(3, "context_compacted", `{"up_to":2,"summary":"short"}`),
			said(4, "output_rejected", `{"problems":["a","b"]}`), said(5, "run_forked", `{"retry":true,"principal":"ada","reason":"again","edits":{"message":"m"}}`)},
			"2 note : No answer: overloaded the provider is overloaded\n3 note : From here on this summary stands for the answers up to row 2:\n\nshort\n4 note : a\nb\n5 person ada: Retry of the run whose rows come before this one: again\n\nThe model reads next:\nm\n"},
		"long texts are cut": {[]events.RunEvent{said(2, "message_received", `{"text":"`+strings.Repeat("ü", 4001)+`"}`)}, "2 person : " + strings.Repeat("ü", 4000) + " …\n"},
		"damaged rows":       {[]events.RunEvent{said(2, "model_answered", `[]`), said(3, "tool_completed", `{"call_id":7}`), said(4, "model_answered", `{"text":"ok","calls":[null]}`)}, "4 agent : ok\n   \n"},
	} {
		got := spoken(ChatOf(tc.rows))
		if name == "damaged rows" {
			got = strings.ReplaceAll(got, "  open [] =  @0 \n", " \n")
		}
		if got != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, tc.want)
		}
	}
}

func TestRowWords(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]events.RunEvent{
		"asks for read and 1 more": said(2, "model_answered", `{"calls":[{"tool":"read"},{"tool":"pay"}]}`),
		"I am done":                said(2, "model_answered", `{"text":"I am\ndone"}`),
		"read failed http_500":     said(3, "tool_completed", `{"tool":"read","status":"failed","error":{"code":"http_500"}}`),
		"approved by maria":        said(4, "approval_decided", `{"decision":"approved","by":"maria"}`),
		"expired":                  said(4, "approval_decided", `{"decision":"expired"}`),
		"check/1 failed max":       said(5, "child_completed", `{"item":"check/1","status":"failed","error":{"code":"max"}}`),
		"by ada":                   said(6, "paused", `{"by":"operator","principal":"ada"}`),
		"":                         said(7, "nobody_knows", `[7]`),
	} {
		if got := RowWords(r); got != want {
			t.Errorf("%s: %q, want %q", r.Kind, got, want)
		}
	}
}
