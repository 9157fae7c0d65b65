package httpapi_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
)

// Pauses, resumes and raises get the next place among the orders to their run, whichever
// door takes them and however many come at once; a message waits for the message before it
// and for no order between them.
func TestCommands_PlacedAsTheyWereTaken(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.many(3, "default", "pricing", "running")
	rows, err := r.db.Query(t.Context(), `SELECT run_id FROM runner.runs ORDER BY run_id`)
	if err != nil {
		t.Fatal(err)
	}
	var runs []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		runs = append(runs, id)
	}
	var all sync.WaitGroup
	post := func(path, body, key string) {
		all.Go(func() {
			if status, _, raw := r.do("POST", path, doortest.Token(authn.Admin), body, "Idempotency-Key", key); status != 202 && status != 200 {
				t.Errorf("%s %s: %d %s", path, body, status, raw)
			}
		})
	}
	const each = 6
	for n := range each {
		for i, id := range runs {
			key := fmt.Sprint(n, "-", i)
			post("/v1/runs/"+id+"/pause", `{}`, "p"+key)
			post("/v1/runs/"+id+"/budget", `{"budget":"steps","to":`+fmt.Sprint(500+n)+`}`, "b"+key)
			post("/v1/runs/"+id+"/messages", `{"text":"look"}`, "m"+key)
			post("/v1/runs/"+id+"/cancel", `{}`, "c"+key) // has no place: it holds whatever comes
		}
		post("/v1/runs/commands", `{"command":"resume","where":"agent==\"pricing\""}`, fmt.Sprint("all", n))
	}
	all.Wait()
	if n := r.number(`SELECT count(*) FROM console.commands WHERE (place IS NULL) <> (kind = 'cancel')`); n != 0 {
		t.Errorf("%d commands have a place and should have none, or the other way round", n)
	}
	for _, id := range runs {
		if n := r.number(`SELECT count(DISTINCT place) * 1000 + max(place) FROM console.commands WHERE run_id = '` + id + `'`); n != 4*each*1000+4*each {
			t.Errorf("run %s has %d places up to %d, want %d", id, n/1000, n%1000, 4*each)
		}
	}
	if n := r.number(`SELECT count(*) FROM console.commands c WHERE kind = 'message' AND coalesce(body->>'after', '') IS DISTINCT FROM coalesce(
		(SELECT b.id FROM console.commands b WHERE b.run_id = c.run_id AND b.kind = 'message' AND b.place < c.place ORDER BY b.place DESC LIMIT 1), '')`); n != 0 {
		t.Errorf("%d messages wait for something else than the message before them", n)
	}

	// The last word is the highest place, by one door after another.
	id := runs[0]
	for i, path := range []string{"/pause", "/resume", "/pause"} {
		c := get[commandAnswer](r, "POST", "/v1/runs/"+id+path, authn.Operator, `{}`)
		if n := r.number(`SELECT place FROM console.commands WHERE id = '` + c.CommandID + `'`); n != int64(4*each+1+i) {
			t.Errorf("order %d has place %d, want %d", i, n, 4*each+1+i)
		}
	}
}
