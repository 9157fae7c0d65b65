package chaos

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// place is one place in one service.
type place struct {
	failpoint.Place
	service string
}

func (p place) name() string { return p.service + "/" + p.Name }

// places lists every place of every service, in the order of the list.
func places() (all []place) {
	for _, p := range failpoint.Places() {
		for _, s := range p.In {
			all = append(all, place{p, s})
		}
	}
	return all
}

// placeLimit is how long a scene may take whose process dies once.
const placeLimit = 60 * time.Second

// killAt plays a scene, lets the service die at the place, and starts it again.
func (r *rig) killAt(ctx context.Context, p place, name string) Result {
	res := Result{Name: p.name(), What: p.What}
	ctx, cancel := context.WithTimeout(ctx, placeLimit)
	defer cancel()
	deaths, doubts := len(r.sup.Deaths()), r.doubtsSaid()
	behind := p.Name == "runner.purged" || strings.HasSuffix(p.Name, ".forgot") // it is passed when a run is deleted
	var back sync.WaitGroup
	var comeback error // read after back.Wait
	strike := func() {
		if err := r.arm(p.service, p.Name); err != nil {
			res.Problems = append(res.Problems, err.Error())
			return
		}
		died := r.sup.Alive(p.service)
		back.Go(func() {
			select {
			case <-died:
			case <-ctx.Done():
			}
			if comeback = r.arm(p.service, ""); comeback == nil && ctx.Err() == nil {
				comeback = r.sup.Restart(ctx, p.service)
			}
		})
	}
	if !behind {
		strike()
	}
	w := r.play(ctx, name)
	res.Completed, res.Problems = r.settle(ctx, w, &res)
	if behind {
		strike()
		if len(w.runs) > 0 {
			if err := patiently(ctx, "delete", func() error {
				_, err := r.operator.Delete(ctx, w.runs[0], client.DeleteRequest{Reason: "chaos"})
				return err
			}); err != nil {
				res.Problems = append(res.Problems, err.Error())
			}
		}
	}
	if !r.reached(ctx, deaths, p) {
		cancel()
		res.Problems = append(res.Problems, fmt.Sprintf("%s did not pass %s", p.service, p.Name))
	}
	if back.Wait(); comeback != nil {
		res.Problems = append(res.Problems, comeback.Error())
	}
	if behind && len(w.runs) > 0 {
		if err := r.purged(ctx, w.runs[0]); err != nil {
			res.Problems = append(res.Problems, err.Error())
		}
	}
	for _, d := range r.sup.Deaths()[deaths:] {
		res.Deaths++
		if !d.Wanted || !strings.HasPrefix(d.Point+" ", "failpoint "+p.Name+" ") {
			res.Problems = append(res.Problems, fmt.Sprintf("%s ended with %s: %s", d.Process, d.Exit, d.Point))
		}
	}
	res.Doubts = r.doubtsSaid() - doubts
	return res
}

// purged waits until a deleted run's rows are gone, whoever died at it.
func (r *rig) purged(ctx context.Context, run events.RunID) error {
	return until(ctx, "run "+string(run)+" to be gone", func() bool {
		var n int
		err := r.views.QueryRow(ctx, `SELECT count(*) FROM runner.v_deleted WHERE run_id = $1 AND purged_at IS NOT NULL`, run).Scan(&n)
		return err == nil && n == 1
	})
}

// reached waits a little for the death at a place.
func (r *rig) reached(ctx context.Context, deaths int, p place) bool {
	for wait := time.After(12 * time.Second); ; {
		for _, d := range r.sup.Deaths()[deaths:] {
			if d.Process == p.service {
				return true
			}
		}
		select {
		case <-ctx.Done():
			return false
		case <-wait:
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// settle waits for the ends of a piece of work and counts what it came to.
func (r *rig) settle(ctx context.Context, w *work, res *Result) (completed int, problems []string) {
	completed, problems = r.ends(ctx, w.runs)
	duplicates, wrong := r.judge(w.business)
	res.Runs, res.Keys, res.Duplicates = len(w.runs), len(w.business), duplicates
	return completed, append(append(problems, w.problems...), wrong...)
}
