package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

var (
	seed  = flag.Uint64("seed", 0, "seed of TestChaos; 0 makes one")
	kills = flag.Int("kills", 6, "processes that TestChaos kills")
)

// TestChaos kills processes at random while errands come and people decide. It
// asks from outside: every accepted errand ends well, and each of its acts took
// effect once.
func TestChaos(t *testing.T) {
	t.Parallel()
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-seed %d -kills %d", *seed, *kills)
	random := rand.New(rand.NewPCG(*seed, 0))
	d := deploy(t, fresh(t)).runners(2)
	d.out.think(100 * time.Millisecond)

	w := &work{d: d, t: t, started: map[events.RunID]job{}, stop: make(chan struct{})}
	var load, people sync.WaitGroup
	load.Go(w.send)
	people.Go(w.decide)
	victims := []string{"runner-1", "runner-2", "tools", "trigger", "approvals", "console", "nats"}
	for range *kills {
		seen := w.count()
		name := victims[random.IntN(len(victims))]
		pause := time.Duration(random.IntN(800)) * time.Millisecond
		until(t, "some errands", func() bool { return w.count() >= seen+2 })
		d.process(name).kill(t)
		t.Logf("killed %s, started again after %s", name, pause)
		time.Sleep(pause) // part of the experiment: how long it is away
		d.start(name)
	}
	close(w.stop)
	load.Wait()
	for id := range w.started {
		d.runOf(t, id, events.StatusCompleted)
	}
	w.end()
	people.Wait()
	for id, j := range w.started {
		extra := d.out.model.Count(string(id)).Requests - len(j.Do) - 1
		d.finished(t, id, j, max(extra, 0))
		for _, act := range []string{"order", "send"} {
			if n := len(d.out.of(act, j.Job)); n != 1 {
				t.Errorf("%s of %s arrived %d times", act, j.Job, n)
			}
		}
	}
	if n := d.count(t, `SELECT count(*) FROM runner.v_runs`); n != len(w.started) {
		t.Errorf("%d runs for %d accepted errands", n, len(w.started))
	}
	t.Logf("%d errands, %d doubts, %d acts with a key that was seen before", len(w.started), w.doubts, d.out.repeated())
}

// work is the load of a chaos test: a sender and a person.
type work struct {
	d    *deployment
	t    *testing.T
	stop chan struct{} // no more errands

	mu      sync.Mutex
	started map[events.RunID]job
	doubts  int
	over    bool
}

func (w *work) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.started)
}

func (w *work) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
}

func (w *work) send() {
	for i := 0; ; i++ {
		j := job{Job: fmt.Sprintf("chaos-%d", i), Do: []string{"read", "pay", "order", "send"}}
		for {
			s, err := w.d.operator.Start(w.t.Context(), client.StartRequest{Agent: "clerk", Input: j.input(), IdempotencyKey: j.Job})
			if err == nil {
				w.mu.Lock()
				w.started[s.RunID] = j
				w.mu.Unlock()
				break
			}
			if w.t.Context().Err() != nil {
				return
			}
		}
		select {
		case <-w.stop:
			return
		case <-time.After(80 * time.Millisecond):
		}
	}
}

// decide says yes to every action, and settles every doubt by looking at what
// has arrived at the shop.
func (w *work) decide() {
	for w.t.Context().Err() == nil {
		w.mu.Lock()
		over := w.over
		w.mu.Unlock()
		if over {
			return
		}
		page, err := w.d.approver.Approvals(w.t.Context(), client.ApprovalFilter{}, client.PageRequest{Limit: 500})
		if err != nil {
			continue
		}
		for _, a := range page.Items {
			decision := client.Decision{Decision: "approve"}
			if a.Kind == events.ApprovalDoubt {
				var about job
				if err := json.Unmarshal(a.Args, &about); err != nil {
					w.t.Errorf("a doubt about %s", a.Args)
				}
				decision.Decision = events.NotHappened
				if len(w.d.out.of(a.Tool, about.Job)) > 0 {
					decision.Decision = events.Happened
				}
			}
			if _, err := w.d.approver.Decide(w.t.Context(), a.ApprovalID, decision); err == nil && a.Kind == events.ApprovalDoubt {
				w.mu.Lock()
				w.doubts++
				w.mu.Unlock()
			}
		}
		select {
		case <-w.t.Context().Done():
		case <-time.After(30 * time.Millisecond):
		}
	}
}

// repeated counts the acts that came again with a key that the shop honours.
func (o *outside) repeated() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := map[string]bool{}
	n := 0
	for _, a := range o.arrivals {
		if a.key != "" {
			if seen[a.key] {
				n++
			}
			seen[a.key] = true
		}
	}
	return n
}
