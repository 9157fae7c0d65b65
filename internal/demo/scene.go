package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

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
	sup      *supervisor
	truth    truth
	admin    *api
	operator *api
	desk     *desk
	alerts   *alertWatch
	model    *scriptmodel.Server
	gate     *gate
	trap     *trap
	web      *web
	prices   string // the pricing API's file
	p        *progress

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
	s.p.say("! "+format, args...)
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
			if err := s.sup.awaitEnd("trigger", 10*time.Second); err != nil {
				s.deviate("%v", err)
				return
			}
			s.p.say("the trigger died at failpoint %s", s.plan.TriggerPoint)
			if err := s.sup.restart(ctx, "trigger"); err != nil {
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
	s.p.say("the night began as run %s", flow)
	if s.plan.TriggerPoint != "" {
		return nil
	}
	time.Sleep(s.plan.TriggerDelay)
	if _, err := s.sup.kill("trigger", fmt.Sprintf("%v after the 202 of the start", s.plan.TriggerDelay)); err != nil {
		return err
	}
	s.p.say("kill -9 trigger, %v after it said 202", s.plan.TriggerDelay)
	return s.sup.restart(ctx, "trigger")
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
	name, ok := s.sup.byPid(pid)
	if err != nil || !ok {
		s.deviate("no runner process belongs to worker %q (pid %d): %v", worker, pid, err)
		return
	}
	s.gate.hold(worker)
	s.gather(ctx, worker, want)
	s.desk.setOpen(false)
	over := s.endedCalls()
	kill := runnerKill{Process: name, Worker: worker, Pid: pid, Alive: len(s.sup.running("runner")) - 1}
	if kill.At, err = s.sup.kill(name, point); err != nil {
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
	s.p.say("kill -9 %s (pid %d): %s, %d runs claimed by it", name, pid, point, len(claims))
	s.follow(ctx, &kill)
	s.mu.Lock()
	s.kills = append(s.kills, kill)
	s.mu.Unlock()
	if err := s.sup.restart(ctx, name); err != nil {
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
	s.p.say("%d of %d runs went on elsewhere, the last after %.2f s", len(kill.Claims)-left, len(kill.Claims), slowest.Seconds())
}

// natsDies kills NATS while decisions are on their way.
func (s *scene) natsDies(ctx context.Context) {
	n := s.releaseSome(ctx, 3)
	if _, err := s.sup.kill("nats", fmt.Sprintf("%d decisions on their way", n)); err != nil {
		s.deviate("%v", err)
		return
	}
	s.p.say("kill -9 nats for %v, %d decisions on their way", s.plan.NATSDown, n)
	time.Sleep(s.plan.NATSDown)
	if err := s.sup.restart(ctx, "nats"); err != nil {
		s.deviate("%v", err)
	}
	s.landed(ctx)
}

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

// patience stretches a limit for a real model, which takes seconds to answer.
func (s *scene) patience(d time.Duration) time.Duration {
	if s.scripted {
		return d
	}
	return 10 * d
}

// toolsDieAt approves the price of a shop, kills the process that writes it
// after the other side's commit, waits for what must follow and restarts it.
func (s *scene) toolsDieAt(ctx context.Context, shop string, follows func(context.Context)) {
	trapped := s.trap.set(shop)
	defer s.trap.release()
	s.desk.releaseShop(ctx, shop)
	var held caught
	select {
	case held = <-trapped:
	case <-time.After(10 * time.Second):
		s.deviate("the approved price of %s did not reach the pricing API within 10 s", shop)
		return
	case <-ctx.Done():
		return
	}
	name := s.killWriter(ctx, shop, held)
	s.trap.release()
	if name == "" {
		s.deviate("no tools process was writing to %s", shop)
		return
	}
	s.toolsKills++
	s.p.say("kill -9 %s: %s had changed the price and not answered", name, shop)
	follows(ctx)
	if err := s.sup.restart(ctx, name); err != nil {
		s.deviate("%v", err)
	}
}

// repeated waits until the other side has recognised a repeat, at most 8 s.
func (s *scene) repeated(ctx context.Context) {
	for deadline := time.Now().Add(8 * time.Second); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		if t, err := readTally(s.prices); err == nil && t.Replayed > 0 {
			s.p.say("it was sent again under the same key, and the shop recognised it")
			return
		}
	}
}

// killWriter kills the process that the ledger names as the writer. A ledger
// that names none is no ledger: then tools processes die one after the other
// until the pricing API sees its caller hang up.
func (s *scene) killWriter(ctx context.Context, shop string, c caught) string {
	point := fmt.Sprintf("between the commit of %s and its record", shop)
	if worker, err := s.truth.writerOf(ctx, shop); err == nil && worker != "" {
		if pid, err := s.truth.pid(ctx, worker); err == nil {
			if name, ok := s.sup.byPid(pid); ok {
				if _, err := s.sup.kill(name, point); err == nil {
					return name
				}
			}
		}
	}
	for _, name := range s.sup.running("tools") {
		if _, err := s.sup.kill(name, "the ledger names no writer to "+shop+", so each is tried"); err != nil {
			continue
		}
		select {
		case <-c.gone:
			return name
		case <-time.After(500 * time.Millisecond):
			if err := s.sup.restart(ctx, name); err != nil {
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
			s.p.say("%s was in doubt; %s looked it up and said %s", found[0].Business, found[0].By, found[0].Decision)
			return
		}
		if n, err := readTally(s.prices); err == nil && n.Duplicates > 0 {
			return // no doubt will come: it acted again
		}
	}
}

// approvalsDie kills the approvals service while decisions are being posted.
func (s *scene) approvalsDie(ctx context.Context) {
	n := s.releaseSome(ctx, s.plan.ApprovalsAfter)
	time.Sleep(s.plan.ApprovalsDelay)
	if _, err := s.sup.kill("approvals", fmt.Sprintf("%v after %d decisions were posted", s.plan.ApprovalsDelay, n)); err != nil {
		s.deviate("%v", err)
		return
	}
	s.p.say("kill -9 approvals, %v after %d decisions were posted", s.plan.ApprovalsDelay, n)
	point := s.plan.ApprovalsPoint
	if point != "" {
		point += "=kill"
	}
	// A decision that its sender repeats may find the failpoint before anybody
	// has seen that the process is ready: then it has done what it was armed for.
	if err := s.sup.restartArmed(ctx, "approvals", point); err != nil && (point == "" || len(s.sup.running("approvals")) > 0) {
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
	for deadline := time.Now().Add(10 * time.Second); len(s.sup.running("approvals")) > 0; time.Sleep(50 * time.Millisecond) {
		if decided, _, _, _, _ := s.desk.tally(); time.Now().After(deadline) || ctx.Err() != nil || len(decided) == proposals {
			if s.sup.awaitEnd("approvals", 500*time.Millisecond) == nil {
				break // the last decision was the one
			}
			s.p.say("every price is decided: none is left for the failpoint of approvals")
			if _, err := s.sup.kill("approvals", "armed, and no decision left for its failpoint"); err != nil {
				s.deviate("%v", err)
			}
			if err := s.sup.restart(ctx, "approvals"); err != nil {
				s.deviate("%v", err)
			}
			return
		}
		s.desk.release(ctx, 1)
	}
	s.p.say("approvals died at failpoint %s", s.plan.ApprovalsPoint)
	if err := s.sup.restart(ctx, "approvals"); err != nil {
		s.deviate("%v", err)
	}
}

// deploy stops one service the polite way, as a new release does.
func (s *scene) deploy(ctx context.Context) {
	n := s.releaseSome(ctx, 2)
	names := s.sup.running(s.plan.DeployRole)
	if len(names) == 0 {
		s.deviate("no %s runs", s.plan.DeployRole)
		return
	}
	slices.Sort(names)
	name := names[int(s.plan.Seed)%len(names)]
	s.p.say("SIGTERM %s: a deploy, %d decisions on their way", name, n)
	if err := s.sup.term(name, "deploy", 15*time.Second); err != nil {
		s.deviate("%v", err)
	}
	if err := s.sup.restart(ctx, name); err != nil {
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
		t, err := readTally(s.prices)
		if err != nil || posts < 2*len(decided) {
			continue
		}
		missing := slices.ContainsFunc(decided, func(r request) bool { return t.effectsOf(r.business()) == 0 })
		if open, err := s.truth.openEffects(ctx); err == nil && open == 0 && !missing {
			return
		}
	}
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
		s.p.say("the night's cap of %d tokens was passed (%d used, %d runs paused, %d alert): raised to %d", ceiling, used, len(paused), alerts, to)
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
		t, err := readTally(s.prices)
		if err != nil {
			continue
		}
		free, _ := s.desk.waits()
		s.p.set("%d of %d checks done, %d prices changed, %d proposals wait", min(ended, shopCount), shopCount, t.Effects, free)
	}
}

// finish waits for the end of the flow and then for quiet: late repeats arrive
// within one acknowledgement wait.
func (s *scene) finish(ctx context.Context) error {
	deadline := time.Now().Add(s.patience(40 * time.Second))
	for {
		r, err := s.operator.run(ctx, s.flow)
		if err == nil && (r.Status == "completed" || r.Status == "failed" || r.Status == "cancelled" || r.Status == "expired") {
			s.p.say("the night ended: %s", r.Status)
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
		s.p.say("runs: %v", err)
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
		s.p.say("%s, run %s, is %s: %.400s", conversationOf(s.flow, c), c.RunID, c.Status, why)
	}
}

// collect reads everything the verdict needs.
func (s *scene) collect(ctx context.Context) (facts, error) {
	f := facts{
		Seed: s.plan.Seed, Scripted: s.scripted, Took: time.Since(s.p.began), Kills: s.kills, ToolsKilled: s.toolsKills,
		Deaths: s.sup.allDeaths(), Incidents: s.incidents, Expected: shopCount + 2,
	}
	var err error
	if f.Tally, err = readTally(s.prices); err != nil {
		return f, err
	}
	family, err := s.truth.family(ctx, s.flow)
	if err != nil {
		return f, fmt.Errorf("runs: %w", err)
	}
	completed := map[string]bool{}
	for _, c := range family {
		key := conversationOf(s.flow, c)
		s.runs[key] = c.RunID
		f.Runs = append(f.Runs, runFact{ID: c.RunID, Kind: c.Kind, Name: c.Name, Status: c.Status, Shop: shopIn(key)})
		completed[c.RunID] = c.Status == "completed"
	}
	for i := range f.Kills {
		for j := range f.Kills[i].Claims {
			c := &f.Kills[i].Claims[j]
			c.Completed = completed[c.RunID]
		}
	}
	if f.Doubts, err = s.truth.doubts(ctx); err != nil {
		return f, fmt.Errorf("doubts: %w", err)
	}
	if f.Journal, err = s.truth.journal(ctx); err != nil {
		return f, fmt.Errorf("journal: %w", err)
	}
	decided, posts, pairs, accepted, other := s.desk.tally()
	f.Approved = len(decided)
	f.Approvals = approvalsFact{Posts: posts, Pairs: pairs, Accepted: accepted, Other: other}
	if f.Approvals.Requests, f.Approvals.Decided, f.Approvals.Heard, err = s.truth.approvals(ctx); err != nil {
		return f, fmt.Errorf("approvals: %w", err)
	}
	f.Budget = budgetFact{Pool: poolName, Ceiling: s.raise.before, Raised: s.raise.to}
	if _, f.Budget.Used, f.Budget.Rows, err = s.truth.budget(ctx, poolName); err != nil {
		return f, fmt.Errorf("budget: %w", err)
	}
	paused, err := s.truth.pausedFor(ctx, poolName)
	if err != nil {
		return f, fmt.Errorf("paused runs: %w", err)
	}
	f.Budget.Paused = len(paused)
	if f.Budget.Raises, err = s.truth.raises(ctx, poolName); err != nil {
		return f, fmt.Errorf("raises: %w", err)
	}
	f.Budget.Alerts, f.Budget.Copies = s.alerts.alerts()
	if s.scripted {
		err = s.collectScript(ctx, &f)
	}
	return f, err
}

// collectScript reads what only the script makes exact.
func (s *scene) collectScript(ctx context.Context, f *facts) error {
	count := func(key string) (requests, inFlight int) {
		for _, e := range s.model.Exchanges() {
			if key != "" && e.Key != key {
				continue
			}
			requests++
			if diedWith(f.Kills, e) {
				inFlight++
			}
		}
		return requests, inFlight
	}
	f.Model = "scripted"
	f.Journal.Requests, f.Journal.InFlight = count("")
	f.Focus.RunID = s.runs[inFocus]
	f.Focus.Requests, f.Focus.InFlight = count(inFocus)
	var err error
	if f.Focus.Answers, _, _, err = s.truth.answers(ctx, f.Focus.RunID, "fetch_page"); err != nil {
		return fmt.Errorf("answers of child 17: %w", err)
	}
	for _, k := range f.Kills {
		for _, c := range k.Claims {
			if c.RunID == f.Focus.RunID && f.Focus.SeqAtKill == 0 {
				f.Focus.SeqAtKill, f.Focus.FirstSeq, f.Focus.WorkerBefore, f.Focus.WorkerAfter = c.Seq, c.FirstSeq, k.Worker, c.FirstBy
			}
		}
	}
	f.ManyPages.Fetched = s.web.count(manyPagesShop)
	if _, f.ManyPages.BudgetResults, f.ManyPages.Asked, err = s.truth.answers(ctx, s.runs[manyPagesShop], "fetch_page"); err != nil {
		return fmt.Errorf("answers of shop 23: %w", err)
	}
	for _, v := range s.model.Violations() {
		f.Broken = append(f.Broken, fmt.Sprintf("%s, answer %d: %s", v.Key, v.Turn+1, v.Message))
	}
	return nil
}

// diedWith reports whether an exchange was in flight at one of the kills.
func diedWith(kills []runnerKill, e scriptmodel.Exchange) bool {
	return slices.ContainsFunc(kills, func(k runnerKill) bool { return slices.Contains(k.InFlight, e.ID) })
}
