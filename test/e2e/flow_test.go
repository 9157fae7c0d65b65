package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

const roundDefinitions = `apiVersion: holdfast/v1
kind: Flow
metadata: {name: round}
spec:
  steps: [{name: each, agent: clerk, forEach: "${input.jobs}", limit: LIMIT, input: {job: "${item.job}", do: "${item.do}"}}]
`

// TestFlow_UnderKills runs a flow of many children while runners are killed at
// random, beside other runs. Asked outside: each child's acts arrived once with one
// key. HOLDFAST_LAB_LONG=1 makes it 1,000 children on four runners and a model that
// takes a second, and holds how long the other runs take to twice of what they take
// alone: while the flow runs, and while runners are killed too, there without those
// that a killed one had.
func TestFlow_UnderKills(t *testing.T) {
	t.Parallel()
	long := os.Getenv("HOLDFAST_LAB_LONG") != ""
	children, runners, deaths, limit, others, abreast, thinks := 60, 2, 3, "20", 15, 1, 50*time.Millisecond
	if long {
		children, runners, deaths, limit, others, abreast, thinks = 1000, 4, 20, "40", 100, 5, time.Second
		limit = cmp.Or(os.Getenv("HOLDFAST_LAB_WINDOW"), limit)
		if d, err := time.ParseDuration(os.Getenv("HOLDFAST_LAB_THINKS")); err == nil {
			thinks = d
		}
	}
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-seed %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 1))
	d := deploy(t, fresh(t)).runners(runners)
	d.out.think(thinks)
	if _, err := d.admin.Apply(t.Context(), []client.Document{{File: "round.yaml", Text: strings.Replace(roundDefinitions, "LIMIT", limit, 1)}}); err != nil {
		t.Fatal(err)
	}
	alone := d.durations(t, "alone", abreast, func(n int) bool { return n < others })

	var jobs []job
	for i := range children {
		jobs = append(jobs, job{Job: fmt.Sprintf("child-%d", i), Do: []string{"pay"}})
	}
	input, err := json.Marshal(map[string]any{"jobs": jobs})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	s, err := d.operator.Start(t.Context(), client.StartRequest{Flow: "round", Input: input, IdempotencyKey: "round"})
	if err != nil {
		t.Fatal(err)
	}
	ended := func() int {
		return d.count(t, `SELECT count(*) FROM runner.v_runs WHERE parent_run_id = $1 AND status = 'completed'`, string(s.RunID))
	}
	share := func(n, of int) func() bool { return func() bool { return ended() >= children*n/of } }
	var beside, amid []timed
	var done atomic.Bool
	var load sync.WaitGroup
	load.Go(func() { // nothing is killed during the first third
		quiet := share(1, 3)
		beside = d.durations(t, "beside", abreast, func(int) bool { return !quiet() })
		amid = d.durations(t, "amid", abreast, func(int) bool { return !done.Load() })
	})
	d.patiently(t, "a third of the children", share(1, 3))
	var kills []time.Time
	for n := range deaths {
		d.patiently(t, "some children", share(deaths+2*n+2, 3*deaths+3))
		name := fmt.Sprintf("runner-%d", 1+random.IntN(runners))
		kills = append(kills, d.process(name).kill(t))
		d.start(name)
	}
	d.patiently(t, "the flow to end", func() bool {
		r, err := d.operator.Run(t.Context(), s.RunID)
		return err == nil && events.Ended(r.Status)
	})
	done.Store(true)
	load.Wait()
	d.runOf(t, s.RunID, events.StatusCompleted)
	if n := ended(); n != children {
		t.Errorf("%d children completed, want %d", n, children)
	}
	for _, j := range jobs {
		if n := d.out.effects("pay", j.Job); n != 1 {
			t.Errorf("%s was paid %d times", j.Job, n)
		}
	}
	if n := d.count(t, `SELECT count(*) FROM runner.v_runs WHERE parent_run_id = $1`, string(s.RunID)); n != children {
		t.Errorf("%d child runs, want %d", n, children)
	}
	var spared, hit []timed
	for _, r := range amid {
		if d.stood(t, r, kills) {
			hit = append(hit, r)
		} else {
			spared = append(spared, r)
		}
	}
	was, is, under := p99(alone), p99(beside), p99(spared)
	t.Logf("%d children and %d kills in %s", children, deaths, time.Since(began).Round(time.Millisecond))
	t.Logf("p99 of other runs: %s of %d alone, %s of %d beside the flow (%.2f), %s of %d under kills (%.2f), %s of %d that a killed runner had",
		was, len(alone), is, len(beside), float64(is)/float64(was), under, len(spared), float64(under)/float64(was), p99(hit), len(hit))
	if long && (is > 2*was || under > 2*was) {
		t.Errorf("p99 of other runs went from %s to %s and, under kills, %s; want at most twice as long", was, is, under)
	}
}

// timed is a run, when it began and how long it took.
type timed struct {
	id    events.RunID
	began time.Time
	took  time.Duration
}

// stood reports whether a run stood still from before a kill for as long as its
// worker had to be silent to be thought dead: it was in the killed process.
func (d *deployment) stood(t *testing.T, r timed, kills []time.Time) bool {
	t.Helper()
	for _, at := range kills {
		if at.Before(r.began) || at.After(r.began.Add(r.took)) {
			continue
		}
		n := d.count(t, `
			SELECT count(*) FROM (SELECT at, coalesce(lag(at) OVER (ORDER BY seq), $2::timestamptz) AS before FROM runner.v_events WHERE run_id = $1) e
			WHERE e.before <= $3::timestamptz + interval '0.5 s' AND e.at > $3::timestamptz + interval '1.4 s'`, string(r.id), r.began, at)
		if n > 0 {
			return true
		}
	}
	return false
}

// patiently waits as long as something moves.
func (d *deployment) patiently(t *testing.T, what string, check func() bool) {
	t.Helper()
	rows := func() int { return d.count(t, `SELECT coalesce(sum(seq), 0) FROM runner.v_runs`) }
	seen, since := rows(), time.Now()
	for !check() {
		if n := rows(); n != seen {
			seen, since = n, time.Now()
		}
		if time.Since(since) > patience {
			t.Fatalf("nothing has moved for %s; still waiting for %s", patience, what)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// durations runs jobs, some abreast, while more says so and tells how long each
// took.
func (d *deployment) durations(t *testing.T, name string, abreast int, more func(n int) bool) (all []timed) {
	var mu sync.Mutex
	var rows sync.WaitGroup
	var begun atomic.Int64
	for range abreast {
		rows.Go(func() {
			for i := int(begun.Add(1)) - 1; more(i); i = int(begun.Add(1)) - 1 {
				r := d.duration(t, fmt.Sprintf("%s-%d", name, i))
				mu.Lock()
				all = append(all, r)
				mu.Unlock()
			}
		})
	}
	rows.Wait()
	return all
}

// duration runs one job.
func (d *deployment) duration(t *testing.T, name string) timed {
	began := time.Now()
	s, err := d.operator.Start(t.Context(), client.StartRequest{Agent: "clerk", Input: job{Job: name, Do: []string{"pay"}}.input()})
	if err != nil {
		t.Errorf("start %s: %v", name, err)
		return timed{began: began}
	}
	for {
		r, err := d.operator.Run(t.Context(), s.RunID)
		if err == nil && r.Status == events.StatusCompleted {
			break
		}
		if err == nil && events.Ended(r.Status) || time.Since(began) > patience {
			t.Errorf("%s is %s: %v", name, r.Status, err)
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return timed{s.RunID, began, time.Since(began).Round(time.Millisecond)}
}

func p99(all []timed) time.Duration {
	if len(all) == 0 {
		return 0
	}
	all = slices.SortedFunc(slices.Values(all), func(a, b timed) int { return cmp.Compare(a.took, b.took) })
	return all[(len(all)*99+99)/100-1].took
}
