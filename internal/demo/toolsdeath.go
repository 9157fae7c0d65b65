package demo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/internal/lab"
)

// toolsDie kills a tools process twice, each time one whose price change the
// other side has just committed and not answered. First at a shop that honours
// the key: the call is repeated and the other side recognises it. Then at one
// that does not: the night's one doubt. Nothing else is being written meanwhile.
func (s *scene) toolsDie(ctx context.Context) {
	blind, honest := s.plan.ToolsShop, s.plan.ReplayShop
	for deadline := time.Now().Add(s.patience(12 * time.Second)); ; time.Sleep(100 * time.Millisecond) {
		_, shops := s.desk.waits()
		if !s.scripted { // a real model proposes where it sees a reason
			honest, blind = pickShop(shops, honest, true), pickShop(shops, blind, false)
		}
		if shops[blind] && shops[honest] {
			break
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			s.deviate("%s and %s did not both propose a price in time", honest, blind)
			return
		}
		s.desk.release(ctx, 1) // make room in the flow's window
	}
	s.landed(ctx)
	s.toolsDieAt(ctx, honest, s.repeated)
	s.toolsDieAt(ctx, blind, s.doubtSettled)
}

// pickShop is the shop that the plan names while it waits, else any of the kind
// that does.
func pickShop(waiting map[string]bool, planned string, honoured bool) string {
	if waiting[planned] {
		return planned
	}
	for _, shop := range slices.Sorted(maps.Keys(waiting)) {
		if shopNumber(shop) != 0 && honours(shop) == honoured {
			return shop
		}
	}
	return planned
}

// toolsDieAt approves the price of a shop, kills the process that writes it
// after the other side's commit, waits for what must follow and restarts it.
func (s *scene) toolsDieAt(ctx context.Context, shop string, follows func(context.Context)) {
	trapped := s.trap.Set(shop)
	defer s.trap.Release()
	s.desk.releaseShop(ctx, shop)
	var held lab.Caught
	select {
	case held = <-trapped:
	case <-time.After(10 * time.Second):
		s.deviate("the approved price of %s did not reach the pricing API within 10 s", shop)
		return
	case <-ctx.Done():
		return
	}
	name := s.killWriter(ctx, shop, held)
	s.trap.Release()
	if name == "" {
		s.deviate("no tools process was writing to %s", shop)
		return
	}
	s.toolsKills++
	s.p.Say("kill -9 %s: %s had changed the price and not answered", name, shop)
	follows(ctx)
	if err := s.sup.Restart(ctx, name); err != nil {
		s.deviate("%v", err)
	}
}

// repeated waits until the other side has recognised a repeat, at most 8 s.
func (s *scene) repeated(ctx context.Context) {
	for deadline := time.Now().Add(8 * time.Second); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		if t, err := lab.ReadTally(s.prices); err == nil && t.Replayed > 0 {
			s.p.Say("it was sent again under the same key, and the shop recognised it")
			return
		}
	}
}

// killWriter kills the process that the ledger names as the writer. A ledger
// that names none is no ledger: then tools processes die one after the other
// until the pricing API sees its caller hang up.
func (s *scene) killWriter(ctx context.Context, shop string, c lab.Caught) string {
	point := fmt.Sprintf("between the commit of %s and its record", shop)
	if worker, err := s.truth.writerOf(ctx, shop); err == nil && worker != "" {
		if pid, err := s.truth.pid(ctx, worker); err == nil {
			if name, ok := s.sup.ByPid(pid); ok {
				if _, err := s.sup.Kill(name, point); err == nil {
					return name
				}
			}
		}
	}
	for _, name := range s.sup.Running("tools") {
		if _, err := s.sup.Kill(name, "the ledger names no writer to "+shop+", so each is tried"); err != nil {
			continue
		}
		select {
		case <-c.Gone:
			return name
		case <-time.After(500 * time.Millisecond):
			if err := s.sup.Restart(ctx, name); err != nil {
				s.deviate("%v", err)
			}
		}
	}
	return ""
}

// doubtSettled waits until the doubt was put before a person and answered, at
// most 8 s. That it is there is a check of the verdict, not of this function.
func (s *scene) doubtSettled(ctx context.Context) {
	for deadline := time.Now().Add(8 * time.Second); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		if found, err := s.truth.doubts(ctx); err == nil && len(found) > 0 && found[0].Decision != "" {
			s.p.Say("%s was in doubt; %s looked it up and said %s", found[0].Business, found[0].By, found[0].Decision)
			return
		}
		if n, err := lab.ReadTally(s.prices); err == nil && n.Duplicates > 0 {
			return // no doubt will come: it acted again
		}
	}
}
