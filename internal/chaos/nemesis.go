package chaos

import (
	"context"
	"time"
)

// nemesis breaks something under a load and mends it.
type nemesis struct {
	name, what string
	strike     func(ctx context.Context, r *rig) error
	// prepare is done before there is a load; nil: nothing.
	prepare func(ctx context.Context, r *rig) error
	// possible says why it cannot be done here; nil, or empty: it can.
	possible func() string
}

// nemeses are all there are, each in a file of its own.
var nemeses = []nemesis{
	pausedRunner, pausedTools, natsRestarted, natsLost, postgresRestarted, postgresReadOnly, linesCut, linesSlow, rollingRestart, natsFull, releases, clocksApart, postgresFull,
}

// nemesisLimit is how long all work may take to end once the nemesis is over.
const nemesisLimit = 100 * time.Second

// meet plays a nemesis under a load.
func (r *rig) meet(ctx context.Context, n nemesis, name string) Result {
	res := Result{}
	if n.prepare != nil {
		if err := n.prepare(ctx, r); err != nil {
			res.Problems = append(res.Problems, err.Error())
			return res
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*nemesisLimit)
	defer cancel()
	deaths, doubts := len(r.sup.Deaths()), r.doubtsSaid()
	r.thinks(200 * time.Millisecond)
	defer r.thinks(0)
	stop := r.load(ctx, name)
	rest(ctx, time.Second)
	err := n.strike(ctx, r)
	rest(ctx, time.Second)
	w := stop()
	end, done := context.WithTimeout(ctx, nemesisLimit)
	defer done()
	res.Completed, res.Problems = r.settle(end, w, &res)
	if err != nil {
		res.Problems = append(res.Problems, err.Error())
	}
	for _, d := range r.sup.Deaths()[deaths:] {
		if res.Deaths++; !d.Wanted {
			res.Problems = append(res.Problems, d.Process+" ended by itself: "+d.Exit)
		}
	}
	if err := r.all(ctx); err != nil {
		res.Problems = append(res.Problems, err.Error())
	}
	res.Doubts = r.doubtsSaid() - doubts
	return res
}

// rest lets time pass: what a nemesis is about is how long something lasts.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
