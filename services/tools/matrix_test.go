//go:build !holdfast_broken_ledger

package tools_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
)

var update = flag.Bool("update", false, "rewrite docs/side-effects.md")

// cell is one call of the matrix. A promise of unknown has two: one for each
// verdict.
type cell struct {
	id                   string // in the arguments, and in the oracle's file
	class, policy, point string
	honours              bool
	p                    promise
	verdict              string // empty where nothing is in doubt
	call                 events.CallTool
}

func (c *cell) String() string {
	return fmt.Sprintf("%s, %s, %s, honours %v, verdict %q", c.class, c.policy, c.point, c.honours, c.verdict)
}

// first is what the other side has seen before any verdict, last what in the end.
func (c *cell) first() seen { return either(c.honours, c.p.honours, c.p.ignores) }

func (c *cell) last() seen {
	switch c.verdict {
	case events.Happened:
		return c.p.verdict.happened
	case events.NotHappened:
		return either(c.honours, c.p.verdict.notHonours, c.p.verdict.notIgnores)
	}
	return c.first()
}

func either(honours bool, yes, no seen) seen {
	if honours {
		return yes
	}
	return no
}

// matrixCells lists the cells of every promise.
func matrixCells() []*cell {
	var out []*cell
	for _, g := range promised {
		for _, policy := range g.policies {
			for _, p := range g.promises {
				for _, honours := range []bool{true, false} {
					verdicts := []string{""}
					if p.verdict != nil {
						verdicts = []string{events.Happened, events.NotHappened}
					}
					for _, v := range verdicts {
						out = append(out, &cell{id: fmt.Sprintf("c%03d", len(out)), class: g.class, policy: policy, point: p.point, honours: honours, p: p, verdict: v})
					}
				}
			}
		}
	}
	return out
}

// Every class, policy and point is promised once.
func TestMatrix_IsWhole(t *testing.T) {
	t.Parallel()
	have := map[string]int{}
	for _, g := range promised {
		for _, policy := range g.policies {
			for _, p := range g.promises {
				have[g.class+" "+policy+" "+p.point]++
				if (p.told == events.CallUnknown) != (p.verdict != nil) {
					t.Errorf("%s, %s: told %s and verdict %v", g.title, p.point, p.told, p.verdict)
				}
			}
		}
	}
	want := map[string]int{}
	for class, all := range policies {
		for _, policy := range all {
			for _, point := range points {
				want[class+" "+policy+" "+point] = 1
			}
		}
	}
	if !maps.Equal(have, want) {
		t.Errorf("promised %v, want %v", have, want)
	}
}

// crashes are the points where a process is killed: the place where its calls
// stand still until it is, and what is true of a call that has come there.
var crashes = []struct{ point, pool, failpoint, reached string }{
	// Nothing is committed, so what tells is the stream: see stalled.
	{pointBegin, "m-begin", "tools.begin", ""},
	{pointIntent, "m-intent", "tools.intent", `SELECT count(*) FROM tools.calls c LEFT JOIN tools.effects e USING (effect_id)
		WHERE c.call_id = ANY ($1) AND c.status = 'open' AND coalesce(e.attempt_id, c.attempt_id) IS NOT NULL`},
	{pointActed, "m-acted", "tools.acted", `SELECT count(*) FROM tools.calls WHERE call_id = ANY ($1) AND status = 'open'`},
	{pointRecorded, "m-recorded", "tools.recorded", `SELECT count(*) FROM tools.calls WHERE call_id = ANY ($1) AND status = 'succeeded'`},
}

// TestMatrix runs every promise on real processes that are killed, and counts
// at the other side. All calls share a ledger; each point has a process that
// works for a pool of its own, in which all its calls stand at the failpoint
// when it is killed.
func TestMatrix(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cells := matrixCells()
	at := map[string][]*cell{}
	for _, c := range cells {
		way := wayPatient
		switch c.point {
		case pointSilentDone, pointSilentNot:
			way = wayHasty
		case pointShut:
			way = wayShut
		}
		c.call = w.call(matrixTool(c.class, c.policy, way), fmt.Sprintf(`{"cell":%q}`, c.id))
		at[c.point] = append(at[c.point], c)
	}
	o := newOracle(t, cells)
	env := func(pools ...string) []string {
		return []string{envOutside + "=" + o.URL, envDoor + "=http://" + o.door.addr, envPools + "=" + strings.Join(pools, ",")}
	}

	pools := []string{"default", events.PoolCallbacks}
	for _, crash := range crashes {
		pools = append(pools, crash.pool)
	}
	if err := w.bus.Provision(t.Context(), pools); err != nil {
		t.Fatal(err)
	}
	var doomed []forked
	for _, crash := range crashes {
		doomed = append(doomed, w.fork(crash.failpoint+"=sleep:10m#*", env(crash.pool)...))
		for _, c := range at[crash.point] {
			w.sendTo(crash.pool, c.call)
		}
	}
	for i, crash := range crashes {
		w.stalled(o, crash.pool, crash.reached, at[crash.point])
		if err := doomed[i].Kill(); err != nil {
			t.Fatal(err)
		}
		<-doomed[i].dead
	}
	for _, c := range cells {
		if n := len(w.answersOf(c.call.CallID)); n != 0 {
			t.Errorf("%s: answered %d times before anybody survived", c, n)
		}
	}

	w.fork("", env(pools...)...)
	for _, point := range []string{pointNone, pointSilentDone, pointSilentNot, pointShut} {
		for _, c := range at[point] {
			w.sendTo("default", c.call)
		}
	}
	w.until("the closed door has refused every call", func() bool {
		return w.count(`SELECT count(*) FROM tools.calls c LEFT JOIN tools.effects e USING (effect_id)
			WHERE c.call_id = ANY ($1) AND coalesce(e.attempts, c.attempts) > 0 AND coalesce(e.attempt_id, c.attempt_id) IS NULL`, idsOf(at[pointShut])) == len(at[pointShut])
	})
	o.door.open(t)
	for _, c := range cells {
		w.until(c.String()+" is answered", func() bool { return len(w.answersOf(c.call.CallID)) > 0 })
	}
	w.drained(pools)
	o.check(t, cells, "before a verdict", (*cell).first)

	for _, c := range cells {
		for _, a := range w.answersOf(c.call.CallID) {
			if a.Status != c.p.told {
				t.Errorf("%s: told %s, want %s", c, a.Status, c.p.told)
			}
			if c.verdict != "" && a.InDoubt != c.policy {
				t.Errorf("%s: in doubt %q", c, a.InDoubt)
			}
		}
		if c.verdict != "" {
			w.control("settle:"+c.id, events.ControlTool{CallID: c.call.CallID, RunID: c.call.RunID, Action: events.ControlSettle, Verdict: c.verdict, By: "ines"})
		}
	}
	for _, c := range cells {
		if c.verdict != "" {
			w.until(c.String()+" is settled", func() bool {
				all := w.answersOf(c.call.CallID)
				return len(all) > 0 && all[len(all)-1].Status == events.CallSucceeded
			})
		}
	}
	w.drained(pools)
	o.check(t, cells, "in the end", (*cell).last)
}

func idsOf(cells []*cell) []string {
	var ids []string
	for _, c := range cells {
		ids = append(ids, string(c.call.CallID))
	}
	return ids
}

// stalled waits until every call stands at the failpoint of its process.
func (w *world) stalled(o *oracle, pool, reached string, cells []*cell) {
	w.t.Helper()
	w.until("all of "+pool+" stand at the failpoint", func() bool {
		lag, err := w.bus.Lag(w.t.Context(), events.StreamTools, events.ToolConsumer(pool))
		if err != nil || lag.Pending > 0 || lag.AckPending < uint64(len(cells)) {
			return false
		}
		arrived := 0
		for id, n := range o.tallies(w.t) {
			if slices.ContainsFunc(cells, func(c *cell) bool { return c.id == id }) {
				arrived += n.requests
			}
		}
		if pool == "m-acted" || pool == "m-recorded" {
			if arrived < len(cells) {
				return false
			}
		} else if arrived > 0 {
			w.t.Fatalf("%d requests left before %s", arrived, pool)
		}
		if reached == "" {
			return w.count(`SELECT count(*) FROM tools.calls WHERE call_id = ANY ($1)`, idsOf(cells)) == 0
		}
		return w.count(reached, idsOf(cells)) == len(cells)
	})
}

// drained waits until nothing is left that could act.
func (w *world) drained(pools []string) {
	w.t.Helper()
	w.idle()
	w.until("the pools are empty", func() bool {
		for _, pool := range pools {
			lag, err := w.bus.Lag(w.t.Context(), events.StreamTools, events.ToolConsumer(pool))
			if err != nil || lag.Pending+lag.AckPending > 0 {
				return false
			}
		}
		return w.count(`SELECT count(*) FROM tools.effects WHERE state = 'intent'`) == 0
	})
}

// check compares what the other side has counted with what is promised.
func (o *oracle) check(t *testing.T, cells []*cell, when string, want func(*cell) seen) {
	t.Helper()
	counted := o.tallies(t)
	for _, c := range cells {
		got := counted[c.id]
		if (seen{got.requests, got.applied}) != want(c) {
			t.Errorf("%s: %s %d requests, %d applied; promised are %+v", c, when, got.requests, got.applied, want(c))
		}
		key := c.call.Key
		if c.class == "read" {
			key = ""
		}
		for k := range got.keys {
			if k != key {
				t.Errorf("%s: a request had the key %q, want %q", c, k, key)
			}
		}
	}
}

// The page says what the test above runs.
func TestMatrix_PageIsFresh(t *testing.T) {
	t.Parallel()
	const page = "../../docs/side-effects.md"
	const begin, end = "<!-- written by go test ./services/tools -run TestMatrix_Page -update -->\n", "<!-- end of what the test writes -->\n"
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(b), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has lost its marks %q and %q", page, begin, end)
	}
	want := head + begin + tables() + end + tail
	if string(b) == want {
		return
	}
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s is not what is promised: go test ./services/tools -run TestMatrix_Page -update", page)
}

// tables writes the promise as Markdown.
func tables() string {
	var b strings.Builder
	pair := func(yes, no seen) string {
		one := func(s seen) string { return fmt.Sprintf("%d, %d", s.requests, s.applied) }
		if yes == no {
			return one(yes)
		}
		return "**" + one(yes) + "** or **" + one(no) + "**"
	}
	for _, g := range promised {
		fmt.Fprintf(&b, "\n### %s\n\n| where it breaks | requests, effects | the model is told | after \"it happened\" | after \"it did not happen\" |\n|---|---|---|---|---|\n", g.title)
		for _, p := range g.promises {
			happened, not := "", ""
			if p.verdict != nil {
				happened, not = pair(p.verdict.happened, p.verdict.happened), pair(p.verdict.notHonours, p.verdict.notIgnores)
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", p.point, pair(p.honours, p.ignores), p.told, happened, not)
		}
	}
	b.WriteString("\n")
	return b.String()
}
