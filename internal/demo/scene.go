package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-run/holdfast/internal/lab"
	"github.com/holdfast-run/holdfast/internal/scriptmodel"
)

// Names of the example's definitions that the scenario speaks of.
const (
	scheduleName = "nightly"
	poolName     = "night"
)

// scene is one night: the world, the services in it, and what was seen.
type scene struct {
	plan     plan
	scripted bool
	sup      *lab.Supervisor
	truth    truth
	admin    *api
	operator *api
	desk     *desk
	alerts   *alertWatch
	model    *scriptmodel.Server
	gate     *gate
	trap     *lab.Trap
	web      *web
	prices   string // the pricing API's file
	p        *lab.Progress

	mu         sync.Mutex
	flow       string
	runs       map[string]string // conversation -> run id
	kills      []runnerKill
	toolsKills int
	incidents  []string
	raise      struct {
		before, to int64
	}
}

// deviate notes that something did not go as the plan says.
func (s *scene) deviate(format string, args ...any) {
	s.mu.Lock()
	s.incidents = append(s.incidents, fmt.Sprintf(format, args...))
	s.mu.Unlock()
	s.p.Say("! "+format, args...)
}

// play runs the night from the trigger to the end of the flow.
func (s *scene) play(ctx context.Context) error {
	arrival := s.gate.expect(func(e scriptmodel.Exchange) bool {
		return e.Key == inFocus && e.Turn == s.plan.RunnerTurn
	})
	if !s.scripted {
		s.gate.release() // nothing of the script's is waited for
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var people sync.WaitGroup
	defer people.Wait()
	defer cancel()
	people.Go(func() { s.desk.watch(ctx) })
	people.Go(func() { s.watchBudget(ctx) })
	people.Go(func() { s.showProgress(ctx) })

	s.desk.setOpen(true)
	s.runnerDies(ctx, arrival)
	s.desk.setOpen(false)
	for _, incident := range s.plan.Order {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch incident {
		case incidentNATS:
			s.natsDies(ctx)
		case incidentTools:
			s.toolsDie(ctx)
		case incidentApprovals:
			s.approvalsDie(ctx)
		case incidentDeploy:
			s.deploy(ctx)
		}
	}
	s.desk.unreserve()
	s.desk.setOpen(true)
	return s.finish(ctx)
}

// start asks the schedule for its night now. The trigger dies on the way, and
// whoever asks asks again with the same key until there is an answer: that is
// one night.
func (s *scene) start(ctx context.Context) error {
	key := fmt.Sprintf("demo-%d", s.plan.Seed)
	var died sync.WaitGroup
	if s.plan.TriggerPoint != "" {
		died.Go(func() {
			if err := s.sup.AwaitEnd("trigger", 10*time.Second); err != nil {
				s.deviate("%v", err)
				return
			}
			s.p.Say("the trigger died at failpoint %s", s.plan.TriggerPoint)
			if err := s.sup.Restart(ctx, "trigger"); err != nil {
				s.deviate("%v", err)
			}
		})
	}
	var flow string
	err := untilAnswered(ctx, func() (err error) {
		flow, err = s.operator.triggerSchedule(ctx, scheduleName, key)
		return err
	})
	died.Wait()
	if err != nil {
		return err
	}
	s.flow = flow
	s.p.Say("the night began as run %s", flow)
	if s.plan.TriggerPoint != "" {
		return nil
	}
	time.Sleep(s.plan.TriggerDelay)
	if _, err := s.sup.Kill("trigger", fmt.Sprintf("%v after the 202 of the start", s.plan.TriggerDelay)); err != nil {
		return err
	}
	s.p.Say("kill -9 trigger, %v after it said 202", s.plan.TriggerDelay)
	return s.sup.Restart(ctx, "trigger")
}

// runOf is the run of a conversation, "" while it has none.
func (s *scene) runOf(ctx context.Context, key string) string {
	s.mu.Lock()
	id, ok := s.runs[key]
	s.mu.Unlock()
	if ok {
		return id
	}
	family, err := s.truth.family(ctx, s.flow)
	if err != nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range family {
		s.runs[conversationOf(s.flow, c)] = c.RunID
	}
	return s.runs[key]
}

// conversationOf is the key under which the model server knows a run.
func conversationOf(flow string, c child) string {
	var in struct{ Shop string }
	switch {
	case c.RunID == flow:
		return "flow"
	case json.Unmarshal(c.Input, &in) == nil && in.Shop != "":
		return in.Shop
	}
	return summaryKey
}

// ownerOf is the gate's question.
func (s *scene) ownerOf(ctx context.Context, key string) string {
	id := s.runOf(ctx, key)
	if id == "" {
		return ""
	}
	worker, err := s.truth.claimOf(ctx, id)
	if err != nil {
		return ""
	}
	return worker
}

// patience stretches a limit for a real model, which takes seconds to answer.
func (s *scene) patience(d time.Duration) time.Duration {
	if s.scripted {
		return d
	}
	return 10 * d
}

// watchBudget is the operator: when the night's cap has stopped runs and the
// alert has come, it is raised, once.
func (s *scene) watchBudget(ctx context.Context) {
	var since time.Time
	for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		paused, err := s.truth.pausedFor(ctx, poolName)
		if err != nil || len(paused) == 0 {
			continue
		}
		if since.IsZero() {
			since = time.Now()
		}
		alerts, _ := s.alerts.alerts()
		if alerts == 0 && time.Since(since) < 3*time.Second {
			continue // the operator acts on the alert
		}
		ceiling, used, _, err := s.truth.budget(ctx, poolName)
		if err != nil || ceiling == 0 {
			continue
		}
		to := 2 * ceiling
		err = untilAnswered(ctx, func() error { return s.admin.raise(ctx, paused[0], poolName, to) })
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				s.deviate("raise the night's cap: %v", err)
			}
			return
		}
		s.mu.Lock()
		s.raise.before, s.raise.to = ceiling, to
		s.mu.Unlock()
		s.p.Say("the night's cap of %d tokens was passed (%d used, %d runs paused, %d alert): raised to %d", ceiling, used, len(paused), alerts, to)
		return
	}
}

func (s *scene) showProgress(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
		family, err := s.truth.family(ctx, s.flow)
		if err != nil {
			continue
		}
		ended := 0
		for _, c := range family {
			if c.RunID != s.flow && c.Status == "completed" {
				ended++
			}
		}
		t, err := lab.ReadTally(s.prices)
		if err != nil {
			continue
		}
		free, _ := s.desk.waits()
		s.p.Set("%d of %d checks done, %d prices changed, %d proposals wait", min(ended, shopCount), shopCount, t.Effects, free)
	}
}

// finish waits for the end of the flow and then for quiet: late repeats arrive
// within one acknowledgement wait.
func (s *scene) finish(ctx context.Context) error {
	deadline := time.Now().Add(s.patience(40 * time.Second))
	for {
		r, err := s.operator.run(ctx, s.flow)
		if err == nil && (r.Status == "completed" || r.Status == "failed" || r.Status == "cancelled" || r.Status == "expired") {
			s.p.Say("the night ended: %s", r.Status)
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(deadline) {
			s.deviate("the night did not end in time: status %q, %v", r.Status, err)
			s.explain(ctx)
			break
		}
		time.Sleep(60 * time.Millisecond)
	}
	select {
	case <-time.After(2200 * time.Millisecond):
	case <-ctx.Done():
	}
	return nil
}

// explain says what the first runs that did not end wait for.
func (s *scene) explain(ctx context.Context) {
	family, err := s.truth.family(ctx, s.flow)
	if err != nil {
		s.p.Say("runs: %v", err)
		return
	}
	told := 0
	for _, c := range family {
		if c.Status == "completed" || c.RunID == s.flow || told == 5 {
			continue
		}
		told++
		var why json.RawMessage
		if err := s.operator.call(ctx, http.MethodGet, "/v1/runs/"+c.RunID+"/why", nil, &why); err != nil {
			why = json.RawMessage(err.Error())
		}
		s.p.Say("%s, run %s, is %s: %.400s", conversationOf(s.flow, c), c.RunID, c.Status, why)
	}
}
