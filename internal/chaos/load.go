package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// loadEvery is the time between two starts of a load; the short form takes twice as long.
const loadEvery = 150 * time.Millisecond

// load starts work, one piece after the other, until stop is called, which waits until
// all that was asked for is accepted. Whoever is not answered asks again.
func (r *rig) load(ctx context.Context, name string) (stop func() *work) {
	w := &work{}
	over := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for n := 0; ; n++ {
			all.Go(func() {
				if err := r.loadOne(ctx, w, fmt.Sprintf("%s-%d", name, n), n); err != nil {
					w.fail("%v", err)
				}
			})
			select {
			case <-over:
				return
			case <-ctx.Done():
				return
			case <-time.After(r.every):
			}
		}
	})
	return sync.OnceValue(func() *work { close(over); all.Wait(); return w })
}

func (r *rig) loadOne(ctx context.Context, w *work, name string, n int) error {
	if n%8 == 7 {
		jobs := []job{{Job: name + "-a", Do: []string{"pay"}}, {Job: name + "-b", Do: []string{"send"}}}
		in, err := json.Marshal(map[string]any{"jobs": jobs})
		if err != nil {
			return err
		}
		run, err := r.start(ctx, client.StartRequest{Flow: "round", Input: in, IdempotencyKey: name})
		if err == nil {
			w.add(run, append(jobs, job{Job: name + "-a-last", Do: []string{"pay"}})...)
		}
		return err
	}
	j := job{Job: name, Do: [][]string{{"pay"}, {"send"}, {"pay", "order"}, {"refund"}}[n%4]}
	if n%2 == 0 {
		run, err := r.deliver(ctx, "jobs", "msg_"+name, j.json())
		if err == nil {
			w.add(run, j)
		}
		return err
	}
	run, err := r.start(ctx, client.StartRequest{Agent: "clerk", Input: j.json(), IdempotencyKey: name})
	if err == nil {
		w.add(run, j)
	}
	return err
}
