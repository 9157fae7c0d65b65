package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

const teller = `apiVersion: holdfast/v1
kind: Agent
metadata: {name: teller}
spec:
  model: scripted
  instructions: "SHOP counters"
  tools: [pay]
  concurrency: [{key: labels.counter, max: 1}]
`

// holdWitness looks at each place that is taken, in the transaction that takes it and
// so under the lock of its key: who else holds the key.
const holdWitness = `
CREATE SCHEMA witness;
CREATE TABLE witness.holds (run_id text, others bigint);
CREATE FUNCTION witness.look() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
	INSERT INTO witness.holds SELECT NEW.run_id, count(*) FROM runner.slots s
	WHERE s.namespace = NEW.namespace AND s.key = NEW.key AND s.held AND s.owner <> NEW.owner;
	RETURN NULL;
END $$;
CREATE TRIGGER witness AFTER INSERT OR UPDATE OF held ON runner.slots FOR EACH ROW WHEN (NEW.held) EXECUTE FUNCTION witness.look()`

// killUnderKeys kills each runner process while runs wait for places of two keys that
// have one each: never are two runs inside one, and none of them waits for ever.
func killUnderKeys(t *testing.T, d *deployment) {
	if _, err := d.admin.Apply(t.Context(), []client.Document{{File: "teller.yaml", Text: strings.ReplaceAll(teller, "SHOP", d.out.shopURL)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.db.Exec(t.Context(), holdWitness); err != nil {
		t.Fatal(err)
	}
	d.out.think(100 * time.Millisecond) // so that who dies has a call under way
	defer d.out.think(0)
	const runs = 8
	jobs := map[events.RunID]job{}
	for i := range runs {
		j := job{Job: fmt.Sprintf("counter-%d", i), Do: []string{"pay"}}
		s, err := d.operator.Start(t.Context(), client.StartRequest{Agent: "teller", Input: j.input(), IdempotencyKey: j.Job, Labels: map[string]string{"counter": fmt.Sprint(i % 2)}})
		if err != nil {
			t.Fatal(err)
		}
		jobs[s.RunID] = j
	}
	ended := func() int {
		return d.count(t, `SELECT count(*) FROM runner.v_runs WHERE name = 'teller' AND ended_at IS NOT NULL`)
	}
	for i := range max(*kills/3, 2) {
		seen := ended()
		until(t, "another end", func() bool { n := ended(); return n > seen || n == runs })
		victim := fmt.Sprintf("runner-%d", i%2+1)
		d.process(victim).kill(t)
		d.start(victim)
	}
	for id, j := range jobs {
		d.runOf(t, id, events.StatusCompleted)
		d.finished(t, id, j, d.out.model.Count(string(id)).Requests-len(j.Do)-1)
	}
	if n := d.count(t, `SELECT count(*) FROM witness.holds WHERE others > 0`); n != 0 {
		t.Errorf("%d times a place of a key was taken that another run held", n)
	}
	if n := d.count(t, `SELECT count(DISTINCT run_id) FROM witness.holds`); n != runs {
		t.Errorf("%d runs had a place, want %d", n, runs)
	}
	if n := d.count(t, `SELECT count(*) FROM runner.v_slots`); n != 0 {
		t.Errorf("%d places are still taken or waited for", n)
	}
}
