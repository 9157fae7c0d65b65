package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/internal/scriptmodel"
)

// runnerDies kills the runner that works on child 17 and measures how long its
// runs stand still while nobody restarts it. It repeats with any runner while
// too few runs were hit for a measurement.
func (s *scene) runnerDies(ctx context.Context, arrival <-chan scriptmodel.Exchange) {
	if s.scripted {
		select {
		case e := <-arrival:
			s.killRunner(ctx, s.ownerOf(ctx, e.Key), minResumes+1, fmt.Sprintf("model request %d of child 17 in flight", e.Turn+1))
		case <-time.After(25 * time.Second):
			s.deviate("child 17 made no request %d to the model within 25 s", s.plan.RunnerTurn+1)
			s.gate.release()
		case <-ctx.Done():
			return
		}
	}
	for try := 0; s.claimsHit() < minResumes && try < 3 && ctx.Err() == nil; try++ {
		if victim := s.busiest(ctx); victim != "" {
			s.killRunner(ctx, victim, minResumes, "model calls in flight")
		}
	}
}

func (s *scene) claimsHit() int {
	n := 0
	for _, k := range s.kills {
		n += len(k.Claims)
	}
	return n
}

// busiest is the worker with the most claims; it waits up to 3 s for one.
func (s *scene) busiest(ctx context.Context) string {
	for deadline := time.Now().Add(s.patience(3 * time.Second)); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		if family, err := s.truth.family(ctx, s.flow); err == nil {
			count := map[string]int{}
			best := ""
			for _, c := range family {
				if w, err := s.truth.claimOf(ctx, c.RunID); err == nil && w != "" {
					if count[w]++; count[w] > count[best] {
						best = w
					}
				}
			}
			if best != "" {
				return best
			}
		}
	}
	return ""
}

// killRunner gathers claims at the worker, kills its process, and follows each
// run that it had claimed to the first row after.
func (s *scene) killRunner(ctx context.Context, worker string, want int, point string) {
	defer s.gate.release()
	pid, err := s.truth.pid(ctx, worker)
	name, ok := s.sup.ByPid(pid)
	if err != nil || !ok {
		s.deviate("no runner process belongs to worker %q (pid %d): %v", worker, pid, err)
		return
	}
	s.gate.hold(worker)
	s.gather(ctx, worker, want)
	s.desk.setOpen(false)
	over := s.endedCalls()
	kill := runnerKill{Process: name, Worker: worker, Pid: pid, Alive: len(s.sup.Running("runner")) - 1}
	if kill.At, err = s.sup.Kill(name, point); err != nil {
		s.deviate("kill %s: %v", name, err)
		return
	}
	claims, err := s.truth.claims(ctx, worker)
	if err != nil {
		s.deviate("claims of %s: %v", worker, err)
	}
	time.Sleep(200 * time.Millisecond) // a last request may still be on the wire; a takeover takes longer
	for _, c := range claims {
		kill.Claims = append(kill.Claims, claimFact{RunID: c.RunID, Seq: c.Seq})
	}
	kill.InFlight = s.lostCalls(ctx, over, kill.Claims)
	s.gate.release()
	s.p.Say("kill -9 %s (pid %d): %s, %d runs claimed by it", name, pid, point, len(claims))
	s.follow(ctx, &kill)
	s.mu.Lock()
	s.kills = append(s.kills, kill)
	s.mu.Unlock()
	if err := s.sup.Restart(ctx, name); err != nil {
		s.deviate("%v", err)
	}
}

// endedCalls is the set of model calls that are over.
func (s *scene) endedCalls() map[int]bool {
	over := map[int]bool{}
	for _, e := range s.model.Exchanges() {
		over[e.ID] = !e.InFlight()
	}
	return over
}

// lostCalls lists the model calls of claimed runs that were not over before the
// kill. The gate held their answers, so none of them got through, and nobody
// takes over a claim before this is read.
func (s *scene) lostCalls(ctx context.Context, over map[int]bool, claims []claimFact) []int {
	var ids []int
	for _, e := range s.model.Exchanges() {
		id := s.runOf(ctx, e.Key)
		if !over[e.ID] && slices.ContainsFunc(claims, func(c claimFact) bool { return c.RunID == id }) {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// gather waits until the worker has claimed enough runs and the call of each of
// them stands at the gate, so that none is answered and not yet recorded: at
// most 4 s, or 40 s for a real model.
func (s *scene) gather(ctx context.Context, worker string, want int) {
	settled := 0
	for began := time.Now(); ctx.Err() == nil && time.Since(began) < s.patience(4*time.Second); time.Sleep(20 * time.Millisecond) {
		claims, err := s.truth.claims(ctx, worker)
		if err != nil || len(claims) < want || !s.allInFlight(ctx, claims) {
			settled = 0
			continue
		}
		if settled++; settled == 5 {
			return
		}
	}
}

// allInFlight reports whether each claimed run has a call at the model server
// that is not over. A real model's server does not say: then it is assumed.
func (s *scene) allInFlight(ctx context.Context, claims []claimed) bool {
	if !s.scripted {
		return true
	}
	open := map[string]bool{}
	for _, e := range s.model.Exchanges() {
		if e.InFlight() {
			open[s.runOf(ctx, e.Key)] = true
		}
	}
	return !slices.ContainsFunc(claims, func(c claimed) bool { return !open[c.RunID] })
}

// follow waits for the first journal row of each claimed run after the kill, at
// most 8 s, or 80 s for a real model.
func (s *scene) follow(ctx context.Context, kill *runnerKill) {
	left := len(kill.Claims)
	for deadline := time.Now().Add(s.patience(8 * time.Second)); left > 0 && time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(15 * time.Millisecond) {
		for i := range kill.Claims {
			c := &kill.Claims[i]
			if c.FirstSeq != 0 {
				continue
			}
			seq, at, by, ok, err := s.truth.nextRow(ctx, c.RunID, c.Seq)
			if err == nil && ok {
				c.FirstSeq, c.FirstAt, c.FirstBy = seq, at, by
				left--
			}
		}
	}
	var slowest time.Duration
	for _, c := range kill.Claims {
		if c.FirstSeq != 0 {
			slowest = max(slowest, c.FirstAt.Sub(kill.At))
		}
	}
	s.p.Say("%d of %d runs went on elsewhere, the last after %.2f s", len(kill.Claims)-left, len(kill.Claims), slowest.Seconds())
}
