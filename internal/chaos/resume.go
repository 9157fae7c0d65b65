package chaos

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/client"
)

const (
	runners     = 3
	resumeJobs  = 9 // in model calls at each death
	resumeKills = 6
	resumeTerms = 2
	// stopGrace is what a stopping runner gives its model calls, so that a round is short;
	// what is measured begins after it.
	stopGrace = time.Second
)

// resumes measures how long runs stand still whose runner is killed while others live,
// and how long after one that is stopped hangs up. The model server sees both: the
// request that died and the next one of the same run.
func (r *rig) resumes(ctx context.Context, name string, rounds int, stop bool) Result {
	res := Result{}
	w := &work{}
	for round := range rounds {
		if err := r.resumeRound(ctx, w, fmt.Sprintf("%s-%d", name, round), stop, &res); err != nil {
			res.Problems = append(res.Problems, fmt.Sprintf("round %d: %v", round+1, err))
			break
		}
	}
	end, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	completed, problems := r.settle(end, w, &res)
	res.Completed, res.Problems = completed, append(res.Problems, problems...)
	return res
}

func (r *rig) resumeRound(ctx context.Context, w *work, name string, stop bool, res *Result) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var jobs []string
	for i := range resumeJobs {
		jobs = append(jobs, fmt.Sprintf("%s-%d", name, i))
	}
	release := r.hold(jobs...)
	defer release()
	for _, name := range jobs {
		j := job{Job: name, Do: []string{"pay"}}
		run, err := r.start(ctx, client.StartRequest{Agent: "clerk", Input: j.json(), IdempotencyKey: name})
		if err != nil {
			return err
		}
		w.add(run, j)
	}
	if err := until(ctx, "every model call to be in flight", func() bool {
		return !slices.ContainsFunc(jobs, func(j string) bool { return len(r.asked(j)) == 0 })
	}); err != nil {
		return err
	}
	if err := r.freshRunners(ctx, runners); err != nil {
		return err
	}
	victim, mine, err := r.busiest(ctx, jobs)
	if err != nil {
		return err
	}
	res.Deaths++
	at := time.Now()
	if stop {
		err = r.sup.Term(victim, "SIGTERM with model calls in flight", 20*time.Second)
	} else {
		at, err = r.sup.Kill(victim, "model calls in flight")
	}
	if err != nil {
		return err
	}
	res.lost += len(mine)
	for _, j := range mine {
		if err := until(ctx, "the next request of "+j, func() bool { return len(r.asked(j)) > 1 }); err != nil {
			return err
		}
		res.resumed++
		calls := r.asked(j)
		if stop {
			res.handovers = append(res.handovers, max(calls[1].arrived.Sub(calls[0].ended), 0))
		} else {
			res.resumes = append(res.resumes, calls[1].arrived.Sub(at))
		}
	}
	release()
	return r.sup.Restart(ctx, victim)
}

type asked struct{ arrived, ended time.Time }

// asked lists the first requests that reached the model for a job, in their order.
func (r *rig) asked(job string) (all []asked) {
	for _, e := range r.model.Exchanges() {
		if e.Key == job && e.Turn == 0 {
			all = append(all, asked{e.Arrived, e.Ended})
		}
	}
	return all
}

const queryFresh = `
SELECT count(*) FROM runner.v_workers
WHERE beat > clock_timestamp() - interval '1 s' AND fresh_since < clock_timestamp() - interval '2 s'`

// freshRunners waits until n runners have lived long enough to judge others.
func (r *rig) freshRunners(ctx context.Context, n int) error {
	return until(ctx, "the runners to be two seconds old", func() bool {
		var got int
		return r.views.QueryRow(ctx, queryFresh).Scan(&got) == nil && got >= n
	})
}

const queryClaims = `
SELECT w.pid, r.input->>'job' FROM runner.v_runs r JOIN runner.v_workers w ON w.name = r.claim_worker
WHERE r.input->>'job' = ANY($1) AND r.ended_at IS NULL ORDER BY r.run_id LIMIT 1000`

// busiest is the runner process that makes the most model calls of jobs, and which.
func (r *rig) busiest(ctx context.Context, jobs []string) (name string, mine []string, err error) {
	rows, err := r.views.Query(ctx, queryClaims, jobs)
	if err != nil {
		return "", nil, err
	}
	type claim struct {
		Pid int
		Job string
	}
	claims, err := pgx.CollectRows(rows, pgx.RowToStructByPos[claim])
	if err != nil {
		return "", nil, err
	}
	by := map[string][]string{}
	for _, c := range claims {
		if p, ok := r.sup.ByPid(c.Pid); ok {
			if by[p] = append(by[p], c.Job); len(by[p]) > len(by[name]) {
				name = p
			}
		}
	}
	if name == "" {
		return "", nil, fmt.Errorf("no runner has claimed anything")
	}
	return name, by[name], nil
}

// until polls until check holds or ctx ends.
func until(ctx context.Context, what string, check func() bool) error {
	for !check() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("still waiting for %s: %w", what, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}
