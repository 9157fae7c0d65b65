package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Each loss of a worker is counted, each run once, by what became of it; other
// namespaces and older losses are not.
func TestDurability_CountsWhatWasCommitted(t *testing.T) {
	t.Parallel()
	r := setup(t)
	if d := get[client.Durability](r, http.MethodGet, "/v1/durability", authn.Viewer, ""); d.Lost != 0 || d.Runs != 0 || d.ResumeMaxms != 0 {
		t.Errorf("without a loss: %+v", d)
	}
	ids := map[string]events.RunID{}
	for _, name := range []string{"went-on", "ended", "parked", "not-yet", "handed-over", "old"} {
		ids[name] = events.NewRunID()
		r.take("default", ids[name], name, `{}`)
	}
	other := events.NewRunID()
	r.take("other", other, "other", `{}`)
	loss := func(id events.RunID, namespace string, epoch int, ago, silent string, stopped bool) {
		r.exec(`INSERT INTO runner.takeovers (run_id, epoch, namespace, lost_worker, stopped, at, seen)
			VALUES ($1, $2, $3, 'w', $6, clock_timestamp() - $4::interval, CASE WHEN NOT $6 THEN clock_timestamp() - $4::interval - $5::interval END)`, id, epoch, namespace, ago, silent, stopped)
	}
	loss(ids["went-on"], "default", 2, "5 min", "1 s", false)
	loss(ids["went-on"], "default", 3, "4 min", "2 s", false)
	loss(ids["ended"], "default", 2, "3 min", "3 s", false)
	loss(ids["parked"], "default", 2, "2 min", "4 s", false)
	loss(ids["not-yet"], "default", 2, "1 min", "5 s", false)
	loss(ids["handed-over"], "default", 2, "1 min", "0 s", true)
	loss(ids["old"], "default", 2, "25 hours", "9 s", false)
	loss(other, "other", 2, "1 min", "8 s", false)
	r.exec(`UPDATE runner.runs SET updated_at = clock_timestamp() - interval '10 min'`)
	r.exec(`UPDATE runner.runs SET updated_at = clock_timestamp() - interval '3 min' WHERE run_id = $1`, ids["went-on"])
	r.exec(`UPDATE runner.runs SET status = 'failed', ended_at = clock_timestamp() - interval '10 min' WHERE run_id = $1`, ids["ended"])
	r.exec(`UPDATE runner.runs SET status = 'needs_attention', updated_at = clock_timestamp() WHERE run_id = $1`, ids["parked"])

	d := get[client.Durability](r, http.MethodGet, "/v1/durability", authn.Viewer, "")
	if d.Lost != 5 || d.HandedOver != 1 || d.Runs != 4 || d.Resumed != 2 || d.Parked != 1 || d.NotYet != 1 {
		t.Errorf("%+v", d)
	}
	if d.ResumeP50ms != 3000 || d.ResumeMaxms != 5000 || d.ResumeP99ms < 4900 || d.ResumeP99ms > 5000 {
		t.Errorf("half within %d ms, 99 of 100 within %d, most %d", d.ResumeP50ms, d.ResumeP99ms, d.ResumeMaxms)
	}
	if week := get[client.Durability](r, http.MethodGet, "/v1/durability?since=7d", authn.Viewer, ""); week.Lost != 6 || week.ResumeMaxms != 9000 {
		t.Errorf("in a week: %+v", week)
	}
	for _, bad := range []string{"yesterday", "-1h", "91d", "0s"} {
		if status, _, body := r.do(http.MethodGet, "/v1/durability?since="+bad, doortest.Token(authn.Viewer), ""); status != http.StatusUnprocessableEntity || !strings.Contains(body, "at most 90d") {
			t.Errorf("since=%s: %d %s", bad, status, body)
		}
	}
	r.says(t, "/ui/system", doortest.Token(authn.Viewer), "2 of 4", "1 parked", "1 not yet", "half within 3.000\u00a0s, 99 of 100 within 4.9", "the longest 5.000")
}
