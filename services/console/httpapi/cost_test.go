package httpapi_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console/httpapi"
)

type costBody struct {
	By           string
	Since, Until time.Time
	Total        httpapi.CostRow
	Items        []httpapi.CostRow
	More         bool
}

// spend is what a runner adds for an answer, so many hours ago.
func (r *rig) spend(namespace string, run, root events.RunID, agent, model string, hours int, tokens, cost, guess int64) {
	r.t.Helper()
	r.exec(`INSERT INTO runner.spend VALUES ($1, date_trunc('hour', clock_timestamp(), 'UTC') - make_interval(hours => $2), $3, $4, $5, $6, 1, $7, 2, 1, 3, $8, $9)`,
		namespace, hours, run, root, agent, model, tokens, cost, guess)
}

func TestCost_SumsExactlyByWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	r := setup(t)
	flow, child, alone, gone := events.NewRunID(), events.NewRunID(), events.NewRunID(), events.NewRunID()
	r.take("default", flow, "night", `{}`)
	r.exec(`UPDATE runner.runs SET kind = 'flow', trigger = '{"kind":"schedule","name":"at-two"}' WHERE run_id = $1`, flow)
	r.take("default", child, "checker", `{"customer":"42"}`)
	r.take("default", alone, "checker", `{"customer":"7"}`)
	r.spend("default", child, flow, "checker", "claude", 0, 9007199254740993, 54301, 0)
	r.spend("default", child, flow, "checker", "haiku", 30, 10, 7, 7)
	r.spend("default", alone, alone, "checker", "claude", 1, 10, 20, 5)
	r.spend("default", gone, gone, "old", "claude", 2, 1, 1, 0)
	r.spend("default", alone, alone, "checker", "claude", 24*8, 10, 1000, 0) // before
	r.spend("other", events.NewRunID(), gone, "theirs", "claude", 0, 1, 5000, 0)
	for by, want := range map[string]string{
		"":               "agent: checker 54328/12; old 1/0",
		"model":          "model: claude 54322/5; haiku 7/7",
		"flow":           "flow: night 54308/7;  21/5",
		"trigger":        "trigger: schedule at-two 54308/7; api 20/5; (deleted) 1/0",
		"label:customer": "label:customer: 42 54308/7; 7 20/5; (deleted) 1/0",
		"label:other":    "label:other:  54328/12; (deleted) 1/0",
	} {
		got := get[costBody](r, "GET", "/v1/cost?by="+by, authn.Viewer, "")
		text := got.By + ":"
		for i, row := range got.Items {
			if i > 0 {
				text += ";"
			}
			text += fmt.Sprintf(" %s %d/%d", row.Key, row.CostMicroUSD, row.CostEstimatedMicroUSD)
		}
		if text != want {
			t.Errorf("by %q: %s, want %s", by, text, want)
		}
		if diff := cmp.Diff(httpapi.CostRow{Calls: 4, InputTokens: 9007199254741014, CacheReadTokens: 8, CacheWriteTokens: 4, OutputTokens: 12, CostMicroUSD: 54329, CostEstimatedMicroUSD: 12}, got.Total); diff != "" {
			t.Errorf("by %q: total (-want +got):\n%s", by, diff)
		}
	}
	if days := get[costBody](r, "GET", "/v1/cost?by=day&since=10d", authn.Viewer, ""); len(days.Items) < 3 || days.Items[0].CostMicroUSD != 1000 || days.Items[0].Key >= days.Items[1].Key || days.Total.CostMicroUSD != 55329 {
		t.Errorf("days: %+v", days)
	}
	if none := get[costBody](r, "GET", "/v1/cost?since=2020-01-01&until=2020-01-02", authn.Viewer, ""); len(none.Items) != 0 || none.Total.Calls != 0 {
		t.Errorf("a time without answers: %+v", none)
	}
	for _, bad := range []string{"by=colour", "since=soon", "until=7d", "by=label:"} {
		if status, _, raw := r.do("GET", "/v1/cost?"+bad, doortest.Token(authn.Viewer), ""); status != 422 {
			t.Errorf("%s: %d %s", bad, status, raw)
		}
	}
}
