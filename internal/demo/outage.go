package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/internal/lab"
)

// natsDies kills NATS while decisions are on their way.
func (s *scene) natsDies(ctx context.Context) {
	n := s.releaseSome(ctx, 3)
	if _, err := s.sup.Kill("nats", fmt.Sprintf("%d decisions on their way", n)); err != nil {
		s.deviate("%v", err)
		return
	}
	s.p.Say("kill -9 nats for %v, %d decisions on their way", s.plan.NATSDown, n)
	time.Sleep(s.plan.NATSDown)
	if err := s.sup.Restart(ctx, "nats"); err != nil {
		s.deviate("%v", err)
	}
	s.landed(ctx)
}

// approvalsDie kills the approvals service while decisions are being posted.
func (s *scene) approvalsDie(ctx context.Context) {
	n := s.releaseSome(ctx, s.plan.ApprovalsAfter)
	time.Sleep(s.plan.ApprovalsDelay)
	if _, err := s.sup.Kill("approvals", fmt.Sprintf("%v after %d decisions were posted", s.plan.ApprovalsDelay, n)); err != nil {
		s.deviate("%v", err)
		return
	}
	s.p.Say("kill -9 approvals, %v after %d decisions were posted", s.plan.ApprovalsDelay, n)
	point := s.plan.ApprovalsPoint
	if point != "" {
		point += "=kill"
	}
	// A decision that its sender repeats may find the failpoint before anybody
	// has seen that the process is ready: then it has done what it was armed for.
	if err := s.sup.RestartArmed(ctx, "approvals", point); err != nil && (point == "" || len(s.sup.Running("approvals")) > 0) {
		s.deviate("%v", err)
		return
	}
	if point != "" {
		s.approvalsDieAt(ctx)
	}
	s.landed(ctx)
}

// proposals is how many shops change a price: all but the one of many pages.
const proposals = shopCount - 1

// approvalsDieAt lets the service die at its failpoint: with the next decision
// that it commits. An armed process never stays: when no decision is left it is
// killed, because the answer to a doubt would find the failpoint later, with
// nobody there to start it again.
func (s *scene) approvalsDieAt(ctx context.Context) {
	for deadline := time.Now().Add(10 * time.Second); len(s.sup.Running("approvals")) > 0; time.Sleep(50 * time.Millisecond) {
		if decided, _, _, _, _ := s.desk.tally(); time.Now().After(deadline) || ctx.Err() != nil || len(decided) == proposals {
			if s.sup.AwaitEnd("approvals", 500*time.Millisecond) == nil {
				break // the last decision was the one
			}
			s.p.Say("every price is decided: none is left for the failpoint of approvals")
			if _, err := s.sup.Kill("approvals", "armed, and no decision left for its failpoint"); err != nil {
				s.deviate("%v", err)
			}
			if err := s.sup.Restart(ctx, "approvals"); err != nil {
				s.deviate("%v", err)
			}
			return
		}
		s.desk.release(ctx, 1)
	}
	s.p.Say("approvals died at failpoint %s", s.plan.ApprovalsPoint)
	if err := s.sup.Restart(ctx, "approvals"); err != nil {
		s.deviate("%v", err)
	}
}

// deploy stops one service the polite way, as a new release does.
func (s *scene) deploy(ctx context.Context) {
	n := s.releaseSome(ctx, 2)
	names := s.sup.Running(s.plan.DeployRole)
	if len(names) == 0 {
		s.deviate("no %s runs", s.plan.DeployRole)
		return
	}
	slices.Sort(names)
	name := names[int(s.plan.Seed)%len(names)]
	s.p.Say("SIGTERM %s: a deploy, %d decisions on their way", name, n)
	if err := s.sup.Term(name, "deploy", 15*time.Second); err != nil {
		s.deviate("%v", err)
	}
	if err := s.sup.Restart(ctx, name); err != nil {
		s.deviate("%v", err)
	}
	s.landed(ctx)
}

// releaseSome decides up to n proposals, waiting up to 3 s for the first.
func (s *scene) releaseSome(ctx context.Context, n int) int {
	for deadline := time.Now().Add(s.patience(3 * time.Second)); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(30 * time.Millisecond) {
		if free, _ := s.desk.waits(); free > 0 {
			break
		}
	}
	return s.desk.release(ctx, n)
}

// landed waits until every decided proposal took effect and nothing is being
// written, at most 10 s. What never lands is for the verdict.
func (s *scene) landed(ctx context.Context) {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(40 * time.Millisecond) {
		decided, posts, _, _, _ := s.desk.tally()
		t, err := lab.ReadTally(s.prices)
		if err != nil || posts < 2*len(decided) {
			continue
		}
		missing := slices.ContainsFunc(decided, func(r request) bool { return t.EffectsOf(r.business()) == 0 })
		if open, err := s.truth.openEffects(ctx); err == nil && open == 0 && !missing {
			return
		}
	}
}
