package sim

import (
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
	"github.com/holdfast-run/holdfast/services/tools"
)

// questions is the schema of approvals.
type questions struct {
	w     *World
	byID  map[events.ApprovalID]*question
	order []events.ApprovalID
}

type question struct {
	approvals.Request
	asked    bool // an ask has come, not only a withdrawal
	validFor time.Duration
	busy     bool      // a click is being handled
	announce time.Time // when the relay says it again; zero: it landed, or nothing is to be said
}

func newQuestions(w *World) *questions {
	return &questions{w: w, byID: map[events.ApprovalID]*question{}}
}

// gate is what the ledger's statement reads of the yes to a call.
func (q *questions) gate(id events.ApprovalID, call events.CallID, bind events.Digest) tools.Gate {
	r := q.byID[id]
	switch {
	case r == nil || r.CallID != call || r.Kind != events.ApprovalAction || r.Decision != events.Approve || !r.UnusedAt.IsZero():
		return tools.GateMissing
	case r.Bound() != bind:
		return tools.GateMismatch
	case q.w.now.After(r.ValidUntil):
		return tools.GateExpired
	}
	return tools.GateOpen
}

// ask opens a request unless it is known. A withdrawal that came first wins.
func (q *questions) ask(a approvals.Ask) (r *question, known bool) {
	r = q.byID[a.ID]
	if r != nil && r.asked {
		return r, true
	}
	state, reason, decided := approvals.StatePending, "", time.Time{}
	if r != nil {
		state, reason, decided = r.State, r.WithdrawReason, r.DecidedAt
	} else {
		q.order = append(q.order, a.ID)
	}
	r = &question{Request: a.Request, asked: true, validFor: a.ValidFor}
	r.State, r.WithdrawReason, r.DecidedAt, r.CreatedAt = state, reason, decided, q.w.now
	if state != approvals.StatePending {
		r.Decision = state
	}
	r.ExpiresAt = q.w.now.Add(a.ExpiresAfter)
	q.byID[a.ID] = r
	return r, false
}

func (q *questions) withdraw(id events.ApprovalID, run events.RunID, namespace, reason string) {
	r := q.byID[id]
	switch {
	case r == nil:
		r = &question{Request: approvals.Request{ID: id, RunID: run, Namespace: namespace, State: events.Withdrawn, Decision: events.Withdrawn,
			WithdrawReason: reason, DecidedAt: q.w.now, CreatedAt: q.w.now}}
		q.byID[id] = r
		q.order = append(q.order, id)
	case r.State == approvals.StatePending:
		r.State, r.Decision, r.DecidedAt, r.WithdrawReason = events.Withdrawn, events.Withdrawn, q.w.now, reason
	case r.DecidedBy != "" && r.UnusedAt.IsZero():
		r.UnusedAt, r.UnusedReason = q.w.now, reason
	}
}

// decide makes one attempt: the judgement and the conditional write behind it.
func (q *questions) decide(a approvals.Attempt) approvals.Outcome {
	r := q.byID[a.ID]
	o := approvals.Judge(r.Request, a, q.w.now)
	if o != approvals.Decided {
		return o
	}
	r.State, r.Decision, r.DecidedBy, r.Comment, r.Result = a.Decision, a.Decision, a.By, a.Comment, a.Result
	r.DecidedAt, r.ValidUntil, r.announce = q.w.now, q.w.now.Add(r.validFor), q.w.now
	return o
}

// expire ends requests whose time has passed.
func (q *questions) expire() {
	for _, id := range q.order {
		if r := q.byID[id]; r.State == approvals.StatePending && r.Late(q.w.now) {
			r.State, r.Decision, r.DecidedAt, r.announce = events.Expired, events.Expired, q.w.now, q.w.now
		}
	}
}

func (q *questions) nextExpiry() (at time.Time) {
	for _, id := range q.order {
		if r := q.byID[id]; r.State == approvals.StatePending {
			at = earlier(at, r.ExpiresAt)
		}
	}
	return at
}

// receiveAsk is the handler of approvals.
func receiveAsk(w *World, j *job) {
	w.note(j, "receive")
	if w.flaw == AckBeforeCommit {
		w.bus.remove(j.letter)
	}
	j.next("commit", commitAsk)
}

func commitAsk(w *World, j *job) {
	if w.fault("the database refuses", oddsCommit) {
		w.failed(j)
		return
	}
	if j.letter.Type == events.TypeWithdraw {
		var b events.WithdrawApproval
		if err := events.Decode(j.letter.Message, &b); err != nil {
			w.fail(NothingLost, "%v", err)
			return
		}
		w.asked.withdraw(b.ApprovalID, b.RunID, j.letter.Namespace, b.Reason)
		w.ack(j)
		return
	}
	var b events.AskApproval
	if err := events.Decode(j.letter.Message, &b); err != nil {
		w.fail(NothingLost, "%v", err)
		return
	}
	a, err := approvals.AskOf(j.letter.ID, b)
	if err != nil {
		w.fail(NothingLost, "an ask cannot be read: %v", err)
		return
	}
	r, known := w.asked.ask(a)
	if !known || !r.Ended() {
		w.ack(j)
		return
	}
	again := approvals.Announcement(r.Request, fmt.Sprintf("%s:a%d", r.Cause(), j.letter.seq))
	w.publish(j, []events.Message{again}, func(w *World, j *job) { w.ack(j) })
}
