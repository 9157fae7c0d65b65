package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// work is what was asked for and must come true: runs that complete and business keys
// that take effect once. It is safe for concurrent use.
type work struct {
	mu       sync.Mutex
	runs     []events.RunID
	business []string
	problems []string
}

func (w *work) add(run events.RunID, jobs ...job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs = append(w.runs, run)
	for _, j := range jobs {
		w.business = append(w.business, j.business()...)
	}
}

func (w *work) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

// play asks for one scene and returns when all of it was accepted.
func (r *rig) play(ctx context.Context, name string) *work {
	w := &work{}
	var all sync.WaitGroup
	for _, p := range []func(context.Context, *work, string) error{r.webhook, r.flow, r.schedule, r.signal, r.lookedUp, r.paused, r.hurried, r.reminded} {
		all.Go(func() {
			if err := p(ctx, w, name); err != nil {
				w.fail("%v", err)
			}
		})
	}
	all.Wait()
	return w
}

// webhook: a signed delivery, sent twice, starts an agent that pays, sends, and asks a
// person before it orders.
func (r *rig) webhook(ctx context.Context, w *work, name string) error {
	j := job{Job: name + "-hook", Do: []string{"pay", "send", "order"}}
	first, err := r.deliver(ctx, "jobs", "msg_"+j.Job, j.json())
	if err != nil {
		return err
	}
	again, err := r.deliver(ctx, "jobs", "msg_"+j.Job, j.json())
	if err == nil && first != again {
		err = fmt.Errorf("one delivery started the runs %s and %s", first, again)
	}
	w.add(first, j)
	return err
}

// flow: two agents at once, a second of sleep, one more agent.
func (r *rig) flow(ctx context.Context, w *work, name string) error {
	jobs := []job{{Job: name + "-flow-a", Do: []string{"pay"}}, {Job: name + "-flow-b", Do: []string{"pay"}}}
	in, err := json.Marshal(map[string]any{"jobs": jobs})
	if err != nil {
		return err
	}
	run, err := r.start(ctx, client.StartRequest{Flow: "round", Input: in, IdempotencyKey: name + "-flow"})
	if err == nil {
		w.add(run, append(jobs, job{Job: name + "-flow-a-last", Do: []string{"pay"}})...)
	}
	return err
}

// schedule: one that fires once is applied, and the clock finds it.
func (r *rig) schedule(ctx context.Context, w *work, name string) error {
	j := job{Job: name + "-tick", Do: []string{"pay"}}
	docs := []client.Document{{File: "schedule.yaml", Text: strings.ReplaceAll(schedule, "NAME", j.Job)}}
	if err := patiently(ctx, "apply "+j.Job, func() error { _, err := r.admin.Apply(ctx, docs); return err }); err != nil {
		return err
	}
	for {
		var id events.RunID
		err := r.views.QueryRow(ctx, `SELECT run_id FROM runner.v_runs WHERE input->>'job' = $1 ORDER BY run_id LIMIT 1`, j.Job).Scan(&id)
		if err == nil {
			w.add(id, j)
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the schedule %s did not fire: %w", j.Job, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// signal: a run waits, and another webhook brings what it waits for.
func (r *rig) signal(ctx context.Context, w *work, name string) error {
	j := job{Job: name + "-signal", Do: []string{"await", "pay"}}
	run, err := r.deliver(ctx, "jobs", "msg_"+j.Job, j.json())
	if err != nil {
		return err
	}
	w.add(run, j)
	_, err = r.deliver(ctx, "payments", "msg_paid_"+j.Job, j.json())
	return err
}

// lookedUp: the other side acts and its answer is lost.
func (r *rig) lookedUp(ctx context.Context, w *work, name string) error {
	j := job{Job: name + "-lookup", Do: []string{"refund"}}
	run, err := r.start(ctx, client.StartRequest{Agent: "clerk", Input: j.json(), IdempotencyKey: j.Job})
	if err == nil {
		w.add(run, j)
	}
	return err
}

// paused: an operator pauses a run that waits for its signal, sees that it is paused, lets
// it go on, and sends the signal by the API.
func (r *rig) paused(ctx context.Context, w *work, name string) error {
	return r.steered(ctx, w, name+"-paused", true)
}

// hurried: another pauses a run and takes it back without looking; the last word holds,
// in whatever order the two reach the runner.
func (r *rig) hurried(ctx context.Context, w *work, name string) error {
	return r.steered(ctx, w, name+"-hurried", false)
}

func (r *rig) steered(ctx context.Context, w *work, name string, looks bool) error {
	j := job{Job: name, Do: []string{"await", "pay"}}
	run, err := r.start(ctx, client.StartRequest{Agent: "clerk", Input: j.json(), IdempotencyKey: j.Job})
	if err != nil {
		return err
	}
	w.add(run, j)
	if err := r.seen(ctx, run, ""); err != nil {
		return err
	}
	for _, c := range []struct {
		what string
		do   func() error
	}{
		{"pause", func() error { _, err := r.operator.Pause(ctx, run, "chaos"); return err }},
		{"resume", func() error { _, err := r.operator.Resume(ctx, run, "chaos"); return err }},
		{"signal", func() error {
			_, err := r.operator.SendSignal(ctx, "paid", client.SignalRequest{Key: j.Job})
			return err
		}},
	} {
		if err := patiently(ctx, c.what+" "+j.Job, c.do); err != nil {
			return err
		}
		if c.what != "pause" || !looks {
			continue
		}
		if err := r.seen(ctx, run, events.StatusPaused); err != nil {
			return err
		}
	}
	return nil
}

// seen waits until the runner has a run, in a status; "" is any.
func (r *rig) seen(ctx context.Context, run events.RunID, status string) error {
	return until(ctx, "run "+string(run)+" to be there "+status, func() bool {
		var n int
		err := r.views.QueryRow(ctx, `SELECT count(*) FROM runner.v_runs WHERE run_id = $1 AND ($2 = '' OR status = $2)`, run, status).Scan(&n)
		return err == nil && n == 1
	})
}

// reminded: nobody decides until people were told again and others were told as well,
// which is sooner here than the tool says; see rig.reminds.
func (r *rig) reminded(ctx context.Context, w *work, name string) error {
	j := job{Job: name + "-reminded", Do: []string{"ship"}}
	run, err := r.start(ctx, client.StartRequest{Agent: "clerk", Input: j.json(), IdempotencyKey: j.Job})
	if err == nil {
		w.add(run, j)
	}
	return err
}
