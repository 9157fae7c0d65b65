package httpapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console/httpapi"
)

type commandAnswer struct {
	CommandID string       `json:"command_id"`
	RunID     events.RunID `json:"run_id"`
}

func quoted(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// A message is kept once for its key and placed behind the one before it, also when
// many come at once; what no run can read is refused with what to do instead.
func TestMessages_PlacedInOrderOnceAndBounded(t *testing.T) {
	t.Parallel()
	r := setup(t)
	id := r.accept("default", "pricing", `{}`)
	path := "/v1/runs/" + string(id) + "/messages"
	first := get[commandAnswer](r, "POST", path, authn.Operator, `{"text":"42"}`, "Idempotency-Key", "m1") // before a runner has the run
	if again := get[commandAnswer](r, "POST", path, authn.Operator, `{"text":"42"}`, "Idempotency-Key", "m1"); again != first {
		t.Errorf("the repeat is %+v, want %+v", again, first)
	}
	refused := func(path, body, key string, status int, code, says string) {
		t.Helper()
		got, _, raw := r.do("POST", path, doortest.Token(authn.Operator), body, "Idempotency-Key", key)
		if got != status || !strings.Contains(raw, code) || !strings.Contains(raw, says) {
			t.Errorf("%.80s: %d %s, want %d %s %q", body, got, raw, status, code, says)
		}
	}
	refused(path, `{"text":"43"}`, "m1", 409, httpapi.CodeKeyReused, "")
	refused(path, `{"text":" \n"}`, "b", 422, "invalid_input", "blank")
	refused(path, `{"text":"a\u0000b"}`, "n", 422, "invalid_input", "NUL")
	refused(path, `{"text":`+quoted(t, strings.Repeat("<", events.MessageBytes+1))+`}`, "l", 413, "body_too_large", "32769 bytes")
	refused("/v1/runs/"+string(events.NewRunID())+"/messages", `{"text":"x"}`, "x", 404, "not_found", "")
	if status, _, _ := r.do("POST", path, doortest.Token(authn.Viewer), `{"text":"x"}`); status != 403 {
		t.Errorf("a viewer speaks: %d", status)
	}

	r.take("default", id, "pricing", `{}`)
	hostile := strings.Repeat("é\"\\<&>\u2028", 2600)
	var all sync.WaitGroup
	for n := range events.UnreadMessages + 8 { // one is there
		all.Go(func() {
			status, _, raw := r.do("POST", path, doortest.Token(authn.Operator), `{"text":`+quoted(t, fmt.Sprint(n, hostile))+`}`, "Idempotency-Key", fmt.Sprint("k", n))
			if status != 202 && (status != 409 || !strings.Contains(raw, httpapi.CodeUnread)) {
				t.Errorf("message %d: %d %.200s", n, status, raw)
			}
		})
	}
	all.Wait()
	rows, err := r.db.Query(t.Context(), `SELECT id, place, body->>'after', body->>'text' FROM console.commands WHERE run_id = $1 ORDER BY place`, string(id))
	if err != nil {
		t.Fatal(err)
	}
	place, before := 0, ""
	for rows.Next() {
		var id, text string
		var at int
		var after *string
		if err := rows.Scan(&id, &at, &after, &text); err != nil {
			t.Fatal(err)
		}
		if place++; at != place || (after == nil) != (before == "") || after != nil && *after != before || place > 1 && !strings.HasSuffix(text, hostile) {
			t.Errorf("place %d holds message %d behind %v, want behind %q; %d bytes", place, at, after, before, len(text))
		}
		before = id
	}
	if rows.Err() != nil || place != events.UnreadMessages {
		t.Errorf("%d messages are kept (%v), want %d", place, rows.Err(), events.UnreadMessages)
	}

	// A runner has recorded all of them, and its model has read all but the last two.
	r.exec(`INSERT INTO runner.journal (run_id, seq, kind, status, cause, inbound, worker, at, data)
		SELECT run_id, 1 + place, 'message_received', 'running', 'command:' || id, true, 'w', clock_timestamp(), body FROM console.commands WHERE run_id = $1`, string(id))
	r.exec(`UPDATE runner.runs SET seq = 33, messages = 32, messages_unread = 2 WHERE run_id = $1`, string(id))
	last := get[commandAnswer](r, "POST", path, authn.Operator, `{"text":"12345678901234567890"}`)
	run := get[httpapi.Run](r, "GET", "/v1/runs/"+string(id), authn.Viewer, "")
	if m := run.Messages; m == nil || m.All != 32 || m.Unread != 2 || len(m.Newest) != 20 || m.Newest[1].Read || !m.Newest[2].Read || m.Newest[0].Seq != 33 ||
		m.Newest[0].Principal != "operator" || len([]rune(m.Newest[0].Text)) != 500 {
		t.Errorf("the run has the messages %.600s", quoted(t, run.Messages))
	}
	eventually(t, "the last message is on the bus", func() bool {
		return r.number(`SELECT count(*) FROM console.commands WHERE announced_at IS NOT NULL AND id = '`+last.CommandID+`'`) == 1
	})

	r.exec(`UPDATE runner.runs SET status = 'cancelling' WHERE run_id = $1`, string(id))
	refused(path, `{"text":"x"}`, "c", 409, httpapi.CodeCancelling, "fork it")
	r.exec(`UPDATE runner.runs SET status = 'completed', ended_at = clock_timestamp() WHERE run_id = $1`, string(id))
	refused(path, `{"text":"x"}`, "e", 409, httpapi.CodeRunEnded, "holdfast runs retry "+string(id))
	if again := get[commandAnswer](r, "POST", path, authn.Operator, `{"text":"42"}`, "Idempotency-Key", "m1"); again != first {
		t.Errorf("the repeat after the end is %+v, want %+v", again, first)
	}
	flow := r.accept("default", "round", `{}`)
	r.exec(`UPDATE trigger.deliveries SET ref_kind = 'flow' WHERE run_id = $1`, string(flow))
	refused("/v1/runs/"+string(flow)+"/messages", `{"text":"x"}`, "f", 409, httpapi.CodeFlowRun, "--parent "+string(flow))
}
