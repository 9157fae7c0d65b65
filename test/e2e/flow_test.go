package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
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
// key. HOLDFAST_LAB_LONG=1 makes it 1,000 children on four runners, and holds how
// long the other runs take to twice of what they take alone.
func TestFlow_UnderKills(t *testing.T) {
	t.Parallel()
	long := os.Getenv("HOLDFAST_LAB_LONG") != ""
	children, runners, deaths, limit, others := 60, 2, 3, "20", 15
	if long {
		children, runners, deaths, limit, others = 1000, 4, 20, "40", 200
	}
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-seed %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 1))
	d := deploy(t, fresh(t)).runners(runners)
	d.out.think(50 * time.Millisecond)
	if _, err := d.admin.Apply(t.Context(), []client.Document{{File: "round.yaml", Text: strings.Replace(roundDefinitions, "LIMIT", limit, 1)}}); err != nil {
		t.Fatal(err)
	}
	alone := d.durations(t, "alone", others)

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
	var beside []time.Duration
	var load sync.WaitGroup
	load.Go(func() { beside = d.durations(t, "beside", others) })
	for n := range deaths {
		d.patiently(t, "some children", func() bool { return ended() >= children*(n+1)/(deaths+2) })
		name := fmt.Sprintf("runner-%d", 1+random.IntN(runners))
		d.process(name).kill(t)
		d.start(name)
	}
	load.Wait()
	d.patiently(t, "the flow to end", func() bool {
		r, err := d.operator.Run(t.Context(), s.RunID)
		return err == nil && events.Ended(r.Status)
	})
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
	was, is := p99(alone), p99(beside)
	t.Logf("%d children and %d kills in %s; p99 of other runs %s alone, %s meanwhile", children, deaths, time.Since(began).Round(time.Millisecond), was, is)
	// A run whose runner is killed waits for the takeover, whatever else goes on.
	if long && is > 2*was+3*time.Second {
		t.Errorf("p99 of other runs went from %s to %s", was, is)
	}
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

// durations runs n jobs one after the other and says how long each took.
func (d *deployment) durations(t *testing.T, name string, n int) (took []time.Duration) {
	for i := range n {
		began := time.Now()
		s, err := d.operator.Start(t.Context(), client.StartRequest{Agent: "clerk", Input: job{Job: fmt.Sprintf("%s-%d", name, i), Do: []string{"pay"}}.input()})
		if err != nil {
			t.Errorf("start %s-%d: %v", name, i, err)
			return took
		}
		for {
			r, err := d.operator.Run(t.Context(), s.RunID)
			if err == nil && r.Status == events.StatusCompleted {
				break
			}
			if err == nil && events.Ended(r.Status) || time.Since(began) > patience {
				t.Errorf("%s-%d is %s: %v", name, i, r.Status, err)
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		took = append(took, time.Since(began).Round(time.Millisecond))
	}
	return took
}

func p99(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)*99+99)/100-1]
}
