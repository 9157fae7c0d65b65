package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console/httpapi"
)

// What a run wrote down and left behind is shown with it, folded from its rows,
// to its namespace alone; a list stays small.
func TestRun_ShowsPlanFactsAndArtifacts(t *testing.T) {
	t.Parallel()
	r := setup(t)
	id, other := r.accept("default", "shop", `{}`), r.accept("default", "shop", `{}`)
	shown := func(id events.RunID) httpapi.Known {
		t.Helper()
		return get[httpapi.Run](r, "GET", "/v1/runs/"+string(id), authn.Viewer, "").Known
	}
	if got := shown(id); got.Plan != nil || got.Facts != nil || got.Artifacts != nil {
		t.Errorf("a run that no runner has: %+v", got)
	}
	for _, run := range []events.RunID{id, other} {
		r.take("default", run, "shop", `{}`)
	}
	for i, row := range []string{
		`plan_changed {"call_id":"c","replace":true,"items":[{"id":"1","title":"read","state":"in_progress"},{"id":"2","title":"write","state":"pending"}]}`,
		`facts_changed {"call_id":"c","set":{"order":9007199254740993,"draft":"x"}}`,
		`plan_changed {"call_id":"c","items":[{"id":"1","title":"read","state":"done","note":"12 pages"},{"id":"3","title":"send","state":"pending"}]}`,
		`facts_changed {"call_id":"c","delete":["draft"],"set":{"eur":128.95}}`,
		`facts_changed {"call_id":"c","all":true}`,
	} {
		kind, data, _ := strings.Cut(row, " ")
		r.exec(`INSERT INTO runner.journal (run_id, seq, kind, status, cause, inbound, worker, at, data) VALUES ($1, $2, $3, 'running', 'c', false, 'w', clock_timestamp(), $4::text::json)`, id, i+2, kind, data)
	}
	left := func(run events.RunID, artifact, effect string) {
		r.exec(`INSERT INTO tools.artifacts (artifact_id, namespace, run_id, call_id, effect_id, tool, name, content_type, bytes, digest) VALUES ($1, 'default', $2, 'c', nullif($3, ''), 'save', 'report.md', 'text/markdown', 22, 'd')`, artifact, run, effect)
	}
	left(other, "a-0", "")
	left(id, "a-1", "")
	left(other, "a-2", "e-shared")
	r.exec(`INSERT INTO tools.effects (effect_id, namespace, tool, key, state, epoch, call_id, run_id, args, args_digest, attempts) VALUES ('e-shared', 'default', 'save', 'k', 'succeeded', 1, 'c', $1, '{}', 'd', 1)`, other)
	r.exec(`INSERT INTO tools.calls (call_id, run_id, namespace, tool, tool_digest, pool, args, args_digest, minted_key, key, status, effect_id)
		VALUES ($1 || '-2-0', $1, 'default', 'save', 'd', 'default', '{}', 'd', 'k', 'k', 'succeeded', 'e-shared')`, id)

	asked := string(id) + "-2-0-a2"
	r.exec(`INSERT INTO approvals.requests (approval_id, namespace, run_id, kind, call_id, agent, tool, tool_digest, args, digest, summary, ask_cause, asked_at, created_at, expires_at, valid_for, state, decided_by, door, comment, decided_at, valid_until, edited_args, asked_digest)
		VALUES ($1, 'default', $2, 'action', $2 || '-2-0', 'shop', 'refund', 'd', '{"order":9007199254740993,"amount":500}', 'd', 's', 'ask:' || $1, now(), now(), now() + interval '1 h', interval '1 h', 'approved', 'ann', 'slack', 'half', now(), now() + interval '1 h', '{"amount":5e1,"order":9007199254740993}', 'd0')`, asked, id)
	run := get[httpapi.Run](r, "GET", "/v1/runs/"+string(id), authn.Viewer, "")
	if len(run.Edits) != 1 || run.Edits[0].By != "ann" || run.Edits[0].Door != "slack" || len(run.Edits[0].Changes) != 1 || run.Edits[0].Changes[0].Path != "$.amount" || string(run.Edits[0].Changes[0].From) != "500" ||
		string(run.Edits[0].Changes[0].To) != "5e1" || !strings.Contains(string(run.Edits[0].Args), `"amount":500`) {
		t.Errorf("edits %+v", run.Edits)
	}
	if _, _, page := r.do("GET", "/ui/runs/"+string(id), doortest.Token(authn.Viewer), ""); !strings.Contains(page, "changed by ann through slack") || !strings.Contains(page, "$.amount") || !strings.Contains(page, "5e1") {
		t.Errorf("the page of the run does not show who changed its call:\n%s", page)
	}
	got := shown(id)
	if diff := cmp.Diff([]httpapi.PlanItem{{ID: "1", Title: "read", State: "done", Note: "12 pages"}, {ID: "2", Title: "write", State: "pending"}, {ID: "3", Title: "send", State: "pending"}}, got.Plan); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if len(got.Facts) != 2 || string(got.Facts["order"]) != "9007199254740993" || string(got.Facts["eur"]) != "128.95" {
		t.Errorf("facts %s", got.Facts)
	}
	if len(got.Artifacts) != 2 || got.Artifacts[0].ArtifactID != "a-2" || got.Artifacts[1].ArtifactID != "a-1" || got.Artifacts[1].Name != "report.md" || got.MoreArtifacts {
		t.Errorf("artifacts %+v", got.Artifacts)
	}
	for i := range 100 {
		left(id, fmt.Sprintf("b-%d", i), "")
	}
	if got := shown(id); len(got.Artifacts) != 100 || !got.MoreArtifacts {
		t.Errorf("of 102 artifacts %d are shown, more: %t", len(got.Artifacts), got.MoreArtifacts)
	}
	if got := shown(other); got.Plan != nil || got.Facts != nil {
		t.Errorf("another run shows %+v", got)
	}
	for _, run := range get[door.Page[httpapi.Run]](r, "GET", "/v1/runs", authn.Viewer, "").Items {
		if run.Plan != nil || run.Facts != nil || run.Artifacts != nil {
			t.Errorf("a list shows %+v", run.Known)
		}
	}
	r.exec(`UPDATE runner.runs SET namespace = 'elsewhere' WHERE run_id = $1`, id)
	r.exec(`UPDATE trigger.deliveries SET namespace = 'elsewhere' WHERE run_id = $1`, id)
	if status, _, body := r.do("GET", "/v1/runs/"+string(id), doortest.Token(authn.Viewer), ""); status != http.StatusNotFound || strings.Contains(body, "9007199254740993") {
		t.Errorf("another namespace's run: %d %s", status, body)
	}
}
