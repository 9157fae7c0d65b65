package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// maxAttempts is how many workers a run may lose in a row before it is parked.
const maxAttempts = 5

func received(j *job) events.Received {
	return events.Received{Message: j.letter.Message, StreamSeq: j.letter.seq, Delivered: j.letter.delivered}
}

// receiveRun is the runner's handler of facts, commands and steps: receive, load,
// decide, commit, publish, acknowledge.
func receiveRun(w *World, j *job) {
	j.run.id = events.RunID(strings.Split(j.letter.Subject, ".")[2])
	j.run.what = lastToken(j.letter.Subject)
	w.note(j, "receive")
	if w.flaw == AckBeforeCommit && j.letter.queue == queueRunner {
		w.bus.remove(j.letter)
	}
	j.next("load", loadRun)
}

func loadRun(w *World, j *job) {
	w.lock(j)
	l, ok := w.runs.load(j.run.id)
	if known := j.p.cache[j.run.id]; ok && w.flaw == StaleCache && known != nil && known.Seq < l.State.Seq {
		l.State = known
	}
	j.run.loaded = l
	isStart := j.run.what == events.RunStart
	switch {
	case !ok && isStart:
		j.next("decide", decideFirst)
		return
	case !ok && l.Now.Sub(j.run.id.Time()) > 30*time.Minute:
		w.note(j, "rejects it: there is no such run")
		w.ack(j)
		return
	case !ok:
		w.nak(j, 2*time.Second)
		return
	}
	j.p.cache[j.run.id] = l.State
	var err error
	if j.run.plan, err = w.scene.defs.planOf(l.State); err != nil {
		w.fail(NothingLost, "the plan of run %s cannot be read: %v", j.run.id, err)
		return
	}
	if events.IsStep(j.run.what) {
		if received(j).Redelivered() {
			w.publishRows(j, func(w *World, j *job) { j.next("drive", drive) })
			return
		}
		j.next("drive", drive)
		return
	}
	j.next("decide", decideRun)
}

// lock keeps other handlers of the process away from the run.
func (w *World) lock(j *job) { j.p.locks[j.run.id], j.run.locked = j, true }

func (w *World) unlock(j *job) {
	if j.p.locks[j.run.id] == j {
		delete(j.p.locks, j.run.id)
	}
	j.run.locked = false
}

func decideFirst(w *World, j *job) {
	in, err := runner.DecodeInput(received(j), j.run.what)
	if err != nil {
		w.fail(NothingLost, "%v", err)
		return
	}
	plan, err := runner.Pin(context.Background(), w.scene.defs, j.letter.Namespace, in.Start)
	if err != nil {
		w.fail(NothingLost, "pin: %v", err)
		return
	}
	in.Start.Complete(plan)
	before := runner.NewState(j.run.id, j.letter.Namespace)
	j.run.plan, j.run.create, j.run.loaded.State, j.run.loaded.Claim = plan, true, before, runner.Claim{}
	d, err := runner.Decide(before, plan, in, j.p.name, w.now)
	if err != nil {
		w.fail(NothingLost, "decide: %v", err)
		return
	}
	w.toCommit(j, d)
}

func decideRun(w *World, j *job) {
	l := j.run.loaded
	in, err := runner.DecodeInput(received(j), j.run.what)
	if err != nil {
		w.fail(NothingLost, "%v", err)
		return
	}
	if in.Start != nil {
		in.Start.Body = l.State.Started // recorded; what it pins is what counts
	}
	if w.flaw == NoCauseCheck && w.runs.landed(j.run.id, in.Cause) {
		in.Cause += fmt.Sprintf("~%d", l.State.Seq)
	}
	in.Busy = l.Claim.Held()
	d, err := runner.Decide(l.State, j.run.plan, in, j.p.name, l.Now)
	if err != nil { // also a message that the run never asked for
		w.fail(ExactlyOnce, "run %s cannot take %s: %v", j.run.id, j.letter.ID, err)
		return
	}
	if d.Recorded {
		w.note(j, "(known)")
		w.publishRows(j, func(w *World, j *job) {
			if in.Start != nil && l.State.End != "" && l.State.Started.Parent != nil { // its parent asks
				m, _ := runner.EndAgain(l.State, j.run.plan, j.letter.seq, w.now)
				w.publish(j, []events.Message{m}, func(w *World, j *job) { w.ack(j) })
				return
			}
			j.next("drive", drive)
		})
		return
	}
	j.run.create = false
	w.toCommit(j, d)
}

// publishRows sends again what every row of the message's cause said.
func (w *World) publishRows(j *job, then func(*World, *job)) {
	w.publishFacts(j, j.run.loaded.State, w.runs.rowsOf(j.run.id, j.letter.ID), then)
}

func (w *World) publishFacts(j *job, st *runner.State, facts []runner.Fact, then func(*World, *job)) {
	var all []events.Message
	for _, f := range facts {
		out, err := runner.Outgoing(st, j.run.plan, f)
		if err != nil {
			w.fail(NothingLost, "outgoing: %v", err)
			return
		}
		all = append(all, out...)
	}
	w.publish(j, all, then)
}

// toCommit takes the claim along when the run owes a model call and a slot is free.
func (w *World) toCommit(j *job, d runner.Decision) {
	l := j.run.loaded
	c := runner.Commit{Before: l.State, After: d.State, Facts: d.Facts, Worker: j.p.name, Cause: j.letter.ID, CancelledAt: cancelMoment(l)}
	if d.State.OwesModelCall() && !l.Claim.Held() && j.p.slots > 0 {
		j.p.slots--
		c.Claim, j.run.took = runner.ClaimTake, true
	}
	j.run.commit = c
	if w.flaw == PublishBeforeCommit {
		w.publishFacts(j, c.After, c.Facts, func(w *World, j *job) { j.next("commit", commitRun) })
		return
	}
	j.next("commit", commitRun)
}

func cancelMoment(l runner.Loaded) time.Time {
	if !l.CancelledAt.IsZero() {
		return l.CancelledAt
	}
	return l.Now
}

func commitRun(w *World, j *job) {
	if w.fault("the database refuses", oddsCommit) {
		w.failed(j)
		return
	}
	c := j.run.commit
	epoch, ok := w.runs.commit(c, j.run.create)
	if ok && w.fault("its reply is lost", oddsCommit) {
		ok = false
	}
	if !ok {
		w.note(j, "(conflict)")
		if j.run.took {
			j.p.slots++
			j.run.took = false
		}
		if w.flaw == NoSecondLook {
			w.ack(j)
			return
		}
		j.next("load", loadRun)
		return
	}
	j.p.cache[j.run.id] = c.After
	if j.run.took {
		j.run.claimed = &runner.Claimed{Cause: c.Cause, Worker: j.p.name, Epoch: epoch}
		j.p.active[j.run.id] = epoch
	}
	if w.flaw == PublishBeforeCommit {
		afterFacts(w, j)
		return
	}
	w.publishFacts(j, c.After, w.committed(c), afterFacts)
}

// committed are the rows of a commit as they were stored.
func (w *World) committed(c runner.Commit) []runner.Fact {
	facts := w.runs.byID[c.After.RunID].facts
	return facts[c.After.Seq-int64(len(c.Facts)) : c.After.Seq]
}

func afterFacts(w *World, j *job) {
	switch {
	case runner.OwesStep(j.run.commit, j.run.loaded.Claim):
		w.publish(j, []events.Message{stepOf(j.run.commit.After, j.run.loaded.Claim.Epoch)}, func(w *World, j *job) { w.ack(j) })
	case j.run.claimed != nil:
		w.unlock(j)
		j.next("own", ownRun)
	default:
		w.ack(j)
	}
}

func stepOf(st *runner.State, epoch int64) events.Message {
	return runner.StepMessage(st.RunID, st.Namespace, st.Seq, epoch)
}

// drive makes sure that a run which owes a model call gets it.
func drive(w *World, j *job) {
	l := j.run.loaded
	st := l.State
	working := l.Claim.Worker == j.p.name && j.p.active[j.run.id] == l.Claim.Epoch
	switch runner.DecideDrive(st, l.Claim, j.letter.ID, j.run.step, working) {
	case runner.DriveDrop:
		if _, _, ok := w.runs.takeOver(j.run.id, l.Claim, j.p.name, "", ""); !ok && l.Claim.Worker != j.p.name {
			w.nak(j, time.Second/2)
			return
		}
		w.ack(j)
	case runner.DriveAsk:
		w.publish(j, []events.Message{runner.StepAgain(st, l.Claim.Epoch, j.letter.seq)}, func(w *World, j *job) { w.ack(j) })
	case runner.DriveClaim:
		epoch, ok := w.runs.claimFree(j.run.id, st.Seq, j.p.name, j.letter.ID)
		if !ok {
			j.next("load", loadRun)
			return
		}
		w.claimed(j, epoch)
	case runner.DriveTakeOver:
		takeOver(w, j)
	default:
		w.ack(j)
	}
}

// slot takes a slot for a fast message; a step came with one.
func (w *World) slot(j *job) bool {
	if j.run.step {
		return true
	}
	if j.p.slots > 0 {
		j.p.slots--
		j.run.took = true
	}
	return j.run.took
}

func (w *World) noSlot(j *job) {
	if j.run.took {
		j.p.slots++
		j.run.took = false
	}
}

func (w *World) claimed(j *job, epoch int64) {
	w.note(j, "claims")
	j.run.claimed = &runner.Claimed{Cause: j.letter.ID, Worker: j.p.name, Epoch: epoch}
	j.p.active[j.run.id] = epoch
	w.unlock(j)
	j.next("own", ownRun)
}

func takeOver(w *World, j *job) {
	l, worker := j.run.loaded, ""
	slot := w.slot(j)
	if slot {
		worker = j.p.name
	}
	epoch, attempts, ok := w.runs.takeOver(j.run.id, l.Claim, j.p.name, worker, j.letter.ID)
	if !ok {
		w.noSlot(j)
		w.nak(j, time.Second/2)
		return
	}
	w.note(j, "takes over from "+l.Claim.Worker)
	switch {
	case attempts >= maxAttempts:
		by := runner.Claimed{Cause: j.letter.ID, Worker: j.p.name, Epoch: epoch}
		w.noSlot(j)
		d, err := runner.Park(l.State, events.Problem{Code: "lost_workers", Message: "parked"}, by, w.now)
		if err != nil {
			w.fail(NothingLost, "park: %v", err)
			return
		}
		c := runner.Commit{Before: l.State, After: d.State, Facts: d.Facts, Worker: j.p.name, Cause: j.letter.ID, CancelledAt: cancelMoment(l), Waits: true}
		if slot {
			c.Claim, c.Guard = runner.ClaimClear, runner.Claim{Worker: j.p.name, Epoch: epoch}
		}
		if _, ok := w.runs.commit(c, false); !ok {
			w.failed(j)
			return
		}
		w.publishFacts(j, c.After, w.committed(c), func(w *World, j *job) { w.ack(j) })
	case !slot:
		w.publish(j, []events.Message{stepOf(l.State, epoch)}, func(w *World, j *job) { w.ack(j) })
	default:
		w.claimed(j, epoch)
	}
}

// ownRun reads the run and looks whether the claim is still its own. Who slept does
// so again before the call.
func ownRun(w *World, j *job) {
	l, _ := w.runs.load(j.run.id)
	c := j.run.claimed
	if (l.Claim.Epoch != c.Epoch || l.Claim.Worker != c.Worker) && w.flaw != FencedModel {
		w.drop(j)
		return
	}
	j.slept = false
	j.run.loaded = l
	if !l.State.OwesModelCall() { // paused, cancelled or ended since the claim
		w.runs.release(j.run.id, runner.Claim{Worker: c.Worker, Epoch: c.Epoch})
		w.ack(j)
		return
	}
	var err error
	if j.run.request, err = runner.NextRequest(l.State, j.run.plan, c.Epoch); err != nil {
		w.fail(NoneAskedAgain, "no request can be made of run %s: %v", j.run.id, err)
		return
	}
	j.next("ask model", askModel)
}

func askModel(w *World, j *job) {
	if j.slept && w.flaw != FencedModel {
		j.next("own", ownRun)
		return
	}
	w.onModelCall(j)
	j.run.answer, j.run.callErr = w.scene.model(w, j)
	j.next("conclude", conclude)
}

// conclude commits what the model said. While the claim is its own the answer is
// never thrown away.
func conclude(w *World, j *job) {
	w.lock(j)
	l, _ := w.runs.load(j.run.id)
	j.run.loaded = l
	c := *j.run.claimed
	j.run.answer.Messages = j.run.request.Messages
	if seq := runner.OwnAnswer(l.State, c, j.run.request, j.run.answer, j.run.callErr); seq != 0 {
		var rows []runner.Fact
		for _, f := range w.runs.rowsOf(j.run.id, c.Cause) {
			if f.Seq >= seq {
				rows = append(rows, f)
			}
		}
		w.publishFacts(j, l.State, rows, func(w *World, j *job) {
			owes, mine := l.State.OwesModelCall(), l.Claim.Worker == c.Worker && l.Claim.Epoch == c.Epoch
			switch {
			case owes && !l.Claim.Held():
				w.publish(j, []events.Message{stepOf(l.State, l.Claim.Epoch)}, func(w *World, j *job) { w.ack(j) })
			case owes && mine:
				w.unlock(j)
				j.next("own", ownRun)
			default:
				w.ack(j)
			}
		})
		return
	}
	if (l.Claim.Epoch != c.Epoch || l.Claim.Worker != c.Worker) && w.flaw != FencedModel {
		w.drop(j)
		return
	}
	d, _, err := runner.DecideOutcome(l.State, j.run.plan, j.run.request, j.run.answer, j.run.callErr, c, l.Now)
	if err != nil {
		w.fail(NoneAskedAgain, "an answer of run %s cannot be decided: %v", j.run.id, err)
		return
	}
	commit := runner.Commit{Before: l.State, After: d.State, Facts: d.Facts, Worker: j.p.name, Cause: c.Cause, CancelledAt: cancelMoment(l),
		Guard: runner.Claim{Worker: c.Worker, Epoch: c.Epoch}, Claim: runner.ClaimClear}
	j.run.again = d.State.OwesModelCall() && w.c.pick("another has its slot", 2, 3) == 0
	if j.run.again {
		commit.Claim = runner.ClaimKeep
	}
	j.run.commit = commit
	if w.flaw == PublishBeforeCommit {
		w.publishFacts(j, commit.After, commit.Facts, func(w *World, j *job) { j.next("commit answer", commitAnswer) })
		return
	}
	j.next("commit answer", commitAnswer)
}

var errModel = errors.New("the model's service is busy")

func commitAnswer(w *World, j *job) {
	if w.fault("the database refuses", oddsCommit) {
		j.next("conclude", conclude)
		return
	}
	commit := j.run.commit
	_, ok := w.runs.commit(commit, false)
	if ok && w.fault("its reply is lost", oddsCommit) {
		ok = false
	}
	if !ok {
		w.note(j, "(conflict)")
		if w.flaw == NoSecondLook {
			w.ack(j)
			return
		}
		j.next("conclude", conclude)
		return
	}
	j.p.cache[j.run.id] = commit.After
	then := func(w *World, j *job) {
		switch {
		case j.run.again:
			w.unlock(j)
			j.next("own", ownRun)
		case commit.After.OwesModelCall():
			w.publish(j, []events.Message{stepOf(commit.After, j.run.claimed.Epoch)}, func(w *World, j *job) { w.ack(j) })
		default:
			w.ack(j)
		}
	}
	if w.flaw == PublishBeforeCommit {
		then(w, j)
		return
	}
	w.publishFacts(j, commit.After, w.committed(commit), then)
}
