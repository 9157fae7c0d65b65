package postgres

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// What was spent has its run's flow, trigger and labels in it, outlives the run without
// them, and goes when it is old.
func TestSpend_OutlivesItsRunAndGoesWhenItIsOld(t *testing.T) {
	g := newGrave(t)
	flow := g.run("night", "completed", "", 1)
	child, alone := g.run("checker", "completed", flow, 1), g.run("checker", "completed", "", 1)
	g.exec(`UPDATE runner.runs SET kind = 'flow', trigger = '{"kind":"schedule","name":"at-two"}' WHERE run_id = $1`, string(flow))
	g.exec(`UPDATE runner.runs SET trigger = '{"kind":"api","name":"maria"}', labels = '{"customer":"42"}' WHERE run_id = ANY ($1)`, []string{string(child), string(alone)})
	spend := func(namespace string, run, root events.RunID, days int) {
		g.t.Helper()
		g.exec(`INSERT INTO runner.spend (namespace, hour, run_id, root_run_id, agent, model, calls, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, cost_micro_usd, cost_estimated_micro_usd)
			VALUES ($1, clock_timestamp() - $4::int * interval '1 day', $2, $3, 'checker', 'fast', 1, 1, 0, 0, 1, 54301, 0)`, namespace, string(run), string(root), days)
	}
	spend("default", child, flow, 1)
	spend("default", alone, alone, 2)
	spend("default", events.NewRunID(), events.NewRunID(), 3)
	spend("other", events.NewRunID(), events.NewRunID(), 401)
	spend("default", alone, alone, 401)
	spend("default", alone, alone, 399)
	rows := func() (out []string) {
		g.t.Helper()
		found, err := g.DB.Pool.Query(g.t.Context(), `SELECT concat_ws('|', namespace, flow, trigger, coalesce(labels::text, '-'), sum(cost_micro_usd)) FROM runner.v_spend GROUP BY namespace, flow, trigger, labels ORDER BY 1`)
		if err == nil {
			out, err = pgx.CollectRows(found, pgx.RowTo[string])
		}
		if err != nil {
			g.t.Fatal(err)
		}
		return out
	}
	const gone, alonegone = `|(deleted)|(deleted)|-|`, `||(deleted)|-|`
	want := []string{"default" + gone + "54301", `default|night|schedule at-two|{"customer": "42"}|54301`, `default||api maria|{"customer": "42"}|162903`, "other" + gone + "54301"}
	if diff := cmp.Diff(want, rows()); diff != "" {
		t.Errorf("what was spent (-want +got):\n%s", diff)
	}
	if ids := g.delete(flow, alone); len(ids) != 3 {
		t.Fatalf("%v went", ids)
	}
	if diff := cmp.Diff([]string{"default" + gone + "108602", "default" + alonegone + "162903", "other" + gone + "54301"}, rows()); diff != "" {
		t.Errorf("behind the deletion (-want +got):\n%s", diff)
	}
	forget := func(limit int) int {
		g.t.Helper()
		n, err := g.ForgetSpend(t.Context(), 400*24*time.Hour, limit)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if first, second, third := forget(1), forget(10), forget(10); first != 1 || second != 1 || third != 0 {
		t.Errorf("%d, %d and %d rows were forgotten", first, second, third)
	}
	if diff := cmp.Diff([]string{"default" + gone + "108602", "default" + alonegone + "108602"}, rows()); diff != "" {
		t.Errorf("behind 400 days (-want +got):\n%s", diff)
	}
}
