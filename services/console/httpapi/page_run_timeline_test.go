package httpapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// rowAt is a row of a journal so many seconds after its run began.
func (r *rig) rowAt(id events.RunID, seq int64, seconds float64, kind, worker, data string) {
	r.t.Helper()
	r.exec(`INSERT INTO runner.journal (run_id, seq, kind, status, cause, inbound, worker, at, data)
		SELECT $1, $2, $3, 'running', 'c' || $2::bigint, true, $4, accepted_at + $5::float8 * interval '1 s', $6::text::json FROM runner.runs WHERE run_id = $1`, id, seq, kind, worker, seconds, data)
	r.exec(`UPDATE runner.runs SET seq = greatest(seq, $2) WHERE run_id = $1`, id, seq)
}

// define stores a version of a definition, which its name means from now on.
func (r *rig) define(kind, name, spec string) (digest string) {
	r.t.Helper()
	body := fmt.Sprintf(`{"apiVersion":"holdfast/v1","kind":%q,"metadata":{"name":%q},"spec":%s}`, strings.ToUpper(kind[:1])+kind[1:], name, spec)
	digest = string(events.DigestOf([]byte(body)))
	r.exec(`WITH v AS (INSERT INTO catalog.versions (namespace, kind, name, digest, body, created_by) VALUES ('default', $1, $2, $3, $4::text::json, 'maria') RETURNING *)
		INSERT INTO catalog.current (namespace, kind, name, digest, version, updated_by) SELECT namespace, kind, name, digest, 1, 'maria' FROM v`, kind, name, digest, body)
	return digest
}

// The timeline of a run has a bar for each call and each wait, drawn by what its tool
// does, and leads to their rows.
func TestRunPage_Timeline(t *testing.T) {
	t.Parallel()
	r := setup(t)
	id := events.NewRunID()
	evil := `<script>alert(1)</script>`
	r.take("default", id, "shop", `{}`)
	reads := r.define("tool", "read_reports", `{"description":"d","effect":"read","input":{"type":"object"},"builtin":"","http":{"method":"GET","url":"https://shop.example/"}}`)
	r.exec(`UPDATE runner.runs SET accepted_at = clock_timestamp() - interval '6 h' WHERE run_id = $1`, id)
	r.exec(`UPDATE runner.journal SET at = (SELECT accepted_at FROM runner.runs WHERE run_id = $1), data = json_build_object('tools', json_build_array(json_build_object('name', 'read_reports', 'digest', $2::text))) WHERE run_id = $1`, id, reads)
	call := func(n string) string { return fmt.Sprintf("%s-%s", id, n) }
	asked := func(n, tool, route string) string {
		return fmt.Sprintf(`{"call_id":%q,"tool":%q,"route":%q,"approval_id":"a-%s","args":{"text":%q}}`, call(n), tool, route, n, strings.Repeat("x", 5000))
	}
	r.rowAt(id, 2, 9.2, "model_answered", "runner-1", `{"model_name":"careful","duration_ms":9100,"epoch":1,"cost_micro_usd":54100,"raw":"x","calls":[`+asked("2-0", "read_reports", "send")+`]}`)
	r.rowAt(id, 3, 11.3, "tool_completed", "tools-1", `{"call_id":"`+call("2-0")+`","tool":"read_reports","status":"succeeded","result":"`+strings.Repeat("y", 5000)+`"}`)
	r.rowAt(id, 4, 60, "model_answered", "runner-4", `{"model_name":"careful","duration_ms":20000,"epoch":3,"worker":"runner-4","calls":[`+asked("4-0", "set_price", "send")+","+asked("4-1", evil, "ask")+`]}`)
	r.rowAt(id, 5, 70, "tool_completed", "tools-1", `{"call_id":"`+call("4-0")+`","tool":"set_price","status":"unknown","in_doubt":"ask"}`)
	r.exec(`UPDATE runner.runs SET status = 'waiting' WHERE run_id = $1`, id)
	status, raw := r.page("/ui/runs/"+string(id), authn.Viewer)
	for _, want := range []string{
		`aria-label="model: careful, `, `$0.0541`, `class="b-model"`, `>read_reports</a>`, `<use href="#r-read"/>`, `class="b-read"`, `class="b-lost"`, `class="cut-l"`, "begun again after 28\u00a0s", "runner-4 began it again", "row from before was kept",
		`class="b-doubt"`, "set_price, nobody knows whether it happened", `class="b-person b-open" fill="url(#r-hatch)"`, "approve &lt;script&gt;", "did set_price happen?", "The grey parts are not to scale", `href="#f3"`, "5\u00a0h 5",
	} {
		if !strings.Contains(raw, want) {
			t.Errorf("%d: the page lacks %q", status, want)
		}
	}
	if strings.Contains(raw, "<script") || t.Failed() {
		t.Log(raw)
	}
	for name, change := range map[string]string{
		"calls that are no list":  `UPDATE runner.journal SET data = '{"calls":7,"epoch":"x"}' WHERE run_id = $1 AND seq = 2`,
		"items that are no list":  `UPDATE runner.journal SET kind = 'items_started', data = '{"items":{"a":1},"children":"x","ref":1}' WHERE run_id = $1 AND seq = 2`,
		"items that are no items": `UPDATE runner.journal SET data = '{"items":[1,{"call":"x","child":2}],"children":[3]}' WHERE run_id = $1 AND seq = 2`,
		"a row that is no object": `UPDATE runner.journal SET data = '[1]' WHERE run_id = $1`,
		"a first row of nothing":  `UPDATE runner.journal SET data = '{"tools":{"a":1},"steps":7}' WHERE run_id = $1 AND seq = 1`,
	} {
		r.exec(change, id)
		if status, raw := r.page("/ui/runs/"+string(id), authn.Viewer); status != 200 || strings.Contains(raw, "cannot be drawn") {
			t.Errorf("%s: %d\n%s", name, status, raw)
		}
	}
}

// A run of a thousand steps is read in windows: what its page reads and says does not
// grow with the run.
func TestRunPage_ThousandStepsAreReadInWindows(t *testing.T) {
	t.Parallel()
	r := setup(t)
	grow := func(rows int) events.RunID {
		id := events.NewRunID()
		r.take("default", id, "shop", `{}`)
		r.exec(`INSERT INTO runner.journal (run_id, seq, kind, status, cause, inbound, worker, at, data)
			SELECT $1, g, CASE g % 2 WHEN 0 THEN 'model_answered' ELSE 'tool_completed' END, 'running', 'c' || g, true, 'w', clock_timestamp() + g * interval '1 s',
			       CASE g % 2 WHEN 0 THEN json_build_object('model_name', 'careful', 'duration_ms', 900, 'epoch', g / 2, 'text', repeat('word ', 200), 'raw', repeat('x', 2000), 'calls', json_build_array(json_build_object('call_id', $1 || '-' || g || '-0', 'tool', 'look', 'route', 'send', 'args', json_build_object('n', g))))
			                 ELSE json_build_object('call_id', $1 || '-' || (g - 1) || '-0', 'tool', 'look', 'status', 'succeeded', 'result', repeat('y', 2000)) END
			FROM generate_series(2, $2::int) g`, id, rows)
		r.exec(`UPDATE runner.runs SET seq = $2 WHERE run_id = $1`, id, rows)
		return id
	}
	read := func(id events.RunID, query string) (raw string, took int64, spent time.Duration) {
		t.Helper()
		r.page("/ui/runs/"+string(id)+query, authn.Operator) // plans and connections
		before, began := r.pool.Stat().AcquireCount(), time.Now()
		status, raw := r.page("/ui/runs/"+string(id)+query, authn.Operator)
		if status != 200 {
			t.Fatalf("%d %s", status, raw)
		}
		return raw, r.pool.Stat().AcquireCount() - before, time.Since(began)
	}
	short, long := grow(300), grow(2000)
	small, few, _ := read(short, "")
	large, many, spent := read(long, "")
	t.Logf("300 rows: %d bytes, %d connections used; 2000 rows: %d bytes, %d, in %s", len(small), few, len(large), many, spent)
	if len(large) > len(small)+len(small)/10 || many > few+5 {
		t.Errorf("300 rows are %d bytes and %d uses of a connection, 2000 are %d and %d", len(small), few, len(large), many)
	}
	if n := strings.Count(large, `<li id="t`); n != 201 || !strings.Contains(large, "rows 1801 to 2000, ") {
		t.Errorf("%d lines of the timeline", n)
	}
	middle, _, _ := read(long, "?at=1000")
	for _, want := range []string{"rows 901 to 1100", `id="f1000" class="looked"`, `href="#f1001"`, `at=1050#f1050"`, "?at=800#timeline", "?at=1200#timeline", "?at=940#journal", "rows 971 to 1030 of 2000", "?at=1060#journal"} {
		if !strings.Contains(middle, want) {
			t.Errorf("around row 1000 the page lacks %q", want)
		}
	}
	// A window never reaches beyond the run, at either end, and is whole there.
	for query, want := range map[string][2]string{"": {"rows 1801 to 2000", "rows 1941 to 2000 of 2000"}, "?at=1": {"rows 1 to 200", "rows 1 to 60 of 2000"}, "?at=30": {"rows 1 to 200", "rows 1 to 60 of 2000"},
		"?at=32": {"rows 1 to 200", "rows 3 to 62 of 2000"}, "?at=102": {"rows 3 to 202", "rows 73 to 132 of 2000"}, "?at=1960": {"rows 1801 to 2000", "rows 1931 to 1990 of 2000"},
		"?at=2000": {"rows 1801 to 2000", "rows 1941 to 2000 of 2000"}, "?at=999999": {"rows 1801 to 2000", "rows 1941 to 2000 of 2000"}} {
		_, raw := r.page("/ui/runs/"+string(long)+query, authn.Operator)
		if lines, rows := strings.Count(raw, `<li id="t`), strings.Count(raw, `<tr role="row" id="f`); !strings.Contains(raw, want[0]+",") || !strings.Contains(raw, want[1]) || lines < 200 || rows != 60 {
			t.Errorf("%q: %d lines, %d rows, want %v", query, lines, rows, want)
		}
	}
	if len(middle) > len(small)+len(small)/10 {
		t.Errorf("around row 1000 the page has %d bytes, at the end of a short run %d", len(middle), len(small))
	}
}
