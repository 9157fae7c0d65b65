package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// probedBy is who settles a doubt that a lookup has decided.
const probedBy = "probe"

// undecided is what a lookup says that is neither events.Happened nor
// events.NotHappened.
const undecided = "undecided"

// failLooked is the place where tests make a worker die that has looked and not
// recorded what it saw.
const failLooked = "tools.looked"

// maxDenials bounds how often one call acts again because a lookup says that it
// did not happen. After that the probe's last policy follows.
const maxDenials = 10

// longestLookWait is what the waits between lookups grow to, unless the first
// one is longer.
const longestLookWait = time.Minute

// Probes keeps what lookups come to.
type Probes interface {
	// Looked records a lookup that decided nothing. With InDoubt the doubt is
	// left to that policy and its calls are answered; else it is looked up again
	// after Wait. False when the doubt is no longer open in that epoch: the
	// receipt is kept as late.
	Looked(ctx context.Context, l Look) ([]Call, bool, error)
	// Denied counts the lookups since the call came which said that its effect
	// did not happen.
	Denied(ctx context.Context, effectID string, call events.CallID) (int, error)
}

// Look is one lookup about an effect in doubt.
type Look struct {
	ID       string
	EffectID string
	Epoch    int64
	CallID   events.CallID
	Worker   string
	Receipt  Receipt
	Wait     time.Duration
	InDoubt  string // DoubtAsk or DoubtFail ends the looking
	Error    *events.Problem
}

// firstLook is how long after a doubt it is looked whether it happened.
func (p Plan) firstLook() time.Duration {
	if p.Probe == nil {
		return 0
	}
	return p.Probe.After.Std()
}

// decideProbe handles an effect that is in doubt and looked up. Due sends one of
// its calls when it is time; other deliveries have nothing to do.
func decideProbe(s State, mine bool) Decision {
	switch e := s.Effect; {
	case !mine && (s.Call == nil || s.Call.EffectID != e.ID):
		return Decision{Do: DoAttach}
	case s.Now.Before(e.Claim.NextAttempt):
		return Decision{Do: DoRest}
	}
	return Decision{Do: DoProbe, Doubt: s.Effect}
}

// lookAgain says when the next lookup follows, and whether the time for lookups
// is over. The last one is made when it ends.
func (p Plan) lookAgain(e Effect, now time.Time) (wait time.Duration, over bool) {
	if p.Probe == nil {
		return 0, true
	}
	left := e.ProbeSince.Add(p.Probe.GiveUpAfter.Std()).Sub(now)
	every := p.Probe.Every.Std()
	wait = min(every<<min(e.Probes, 10), max(every, longestLookWait))
	return min(wait, left), left <= 0
}

// probe looks once. Several workers may look at the same time: a lookup changes
// nothing outside, and only one result counts for an epoch.
func (s *Service) probe(ctx context.Context, j *job, e Effect) error {
	l := Look{ID: "p-" + newAttemptID(), EffectID: e.ID, Epoch: e.Claim.Epoch, CallID: j.c.CallID, Worker: s.worker}
	lookup := *j
	if p := j.plan.Probe; p != nil {
		lookup.tool = p.Lookup(j.tool)
	}
	release, ok, err := s.turn(ctx, &lookup, e.ID)
	if err != nil || !ok {
		return err
	}
	var result json.RawMessage
	l.Receipt, result = s.look(ctx, j)
	release()
	if err := failpoint.Hit(failLooked, j.failKey()); err != nil {
		return err
	}
	record, cancel := outliving(ctx, recordGrace)
	defer cancel()
	verdict := l.Receipt.Probe
	if verdict == events.NotHappened {
		n, err := s.store.Denied(record, e.ID, j.c.CallID)
		if err != nil {
			return fmt.Errorf("count lookups about effect %s: %w", e.ID, err)
		}
		if n >= maxDenials {
			return s.looked(record, j, e, l, true)
		}
	}
	if verdict == undecided {
		return s.looked(record, j, e, l, false)
	}
	v := Settle{
		ID:     fmt.Sprintf("probe:%s:%d", e.ID, e.Claim.Epoch),
		CallID: e.CallID, RunID: e.RunID, EffectID: e.ID, Verdict: verdict, Epoch: e.Claim.Epoch, Result: result,
		By: probedBy, Reason: "a lookup says so", Look: &l,
		Messages: func(d Settled) ([]events.Message, error) { return SettledMessages(d, "") },
	}
	done, err := s.controls.Settle(record, v)
	if errors.Is(err, ErrUnstorable) && verdict == events.Happened {
		j.log.ErrorContext(ctx, "lookup's result could not be stored as it is", telemetry.KeyErr, err)
		v.Result, l.Receipt.Error = resultLost, CodeUnstorable
		done, err = s.controls.Settle(record, v)
	}
	if err != nil {
		return fmt.Errorf("settle effect %s: %w", e.ID, err)
	}
	j.log.InfoContext(ctx, "looked whether it happened", "verdict", verdict, "applied", done.Applied, telemetry.KeyEpoch, e.Claim.Epoch)
	s.kick()
	return nil
}

// looked records a lookup that decided nothing, or whose answer no longer
// counts, and leaves the doubt to the probe's last policy when time is over.
func (s *Service) looked(ctx context.Context, j *job, e Effect, l Look, end bool) error {
	wait, over := j.plan.lookAgain(e, s.clock(j))
	l.Wait = wait
	switch {
	case end:
		l.Error = problem(CodeUnknownOutcome, "it was begun %d times, and each time a lookup said that it did not happen", maxDenials+1)
	case over:
		l.Error = problem(CodeUnknownOutcome, "it may have happened; no lookup could tell: %s", l.Receipt.Error)
	}
	if l.Error != nil {
		l.InDoubt = DoubtAsk
		if p := j.plan.Probe; p != nil && p.Then == DoubtFail {
			l.InDoubt = DoubtFail
		}
	}
	calls, mine, err := s.store.Looked(ctx, l)
	if err != nil {
		return fmt.Errorf("record lookup about effect %s: %w", e.ID, err)
	}
	j.log.InfoContext(ctx, "looked whether it happened", "verdict", l.Receipt.Probe, "applied", mine, "policy", l.InDoubt, telemetry.KeyEpoch, e.Claim.Epoch)
	return s.announce(ctx, calls, "")
}

// resultLost is what a call returns whose own answer was lost.
var resultLost = json.RawMessage(`{"note":"a lookup says that it happened; its own answer was lost"}`)

// look makes the lookup and judges its answer. What goes wrong has decided
// nothing.
func (s *Service) look(ctx context.Context, j *job) (Receipt, json.RawMessage) {
	started := s.now()
	r, result, err := s.judge(ctx, j)
	if err != nil {
		r.Probe, r.Error = undecided, err.Error()
	}
	r.StartedAt, r.DurationMs = started.UTC(), s.now().Sub(started).Milliseconds()
	return r, result
}

func (s *Service) judge(ctx context.Context, j *job) (Receipt, json.RawMessage, error) {
	p := j.plan.Probe
	if p == nil {
		return Receipt{Kind: probedBy}, nil, errors.New("the tool's definition is not to be had")
	}
	args, err := p.LookupArgs(j.c.Args, j.plan.Key)
	if err != nil {
		return Receipt{Kind: probedBy}, nil, fmt.Errorf("arguments of the lookup: %w", err)
	}
	lookup := *j
	lookup.tool, lookup.c.Args = p.Lookup(j.tool), args
	lookup.plan.Class, lookup.plan.Policy = ClassRead, DoubtRetry
	if s.kindOf(lookup.tool) == nil {
		return Receipt{Kind: probedBy}, nil, errors.New("no tool kind of this process makes the lookup")
	}
	lookup.look = true
	out := s.act(ctx, &lookup, "")
	r := out.Receipt
	if out.Verdict != Happened {
		return r, nil, fmt.Errorf("no answer to judge: %s", r.Error)
	}
	answer, err := events.Marshal(struct {
		Status int             `json:"status"`
		Body   json.RawMessage `json:"body"`
	}{r.Status, out.Result})
	if err != nil {
		return r, nil, fmt.Errorf("the answer cannot be read: %w", err)
	}
	happened, err := p.Decide(j.c.Args, answer)
	switch {
	case err != nil:
		return r, nil, err
	case !happened:
		r.Probe = events.NotHappened
		return r, nil, nil
	}
	r.Probe = events.Happened
	result, err := p.ResultOf(j.c.Args, answer)
	if err != nil { // that it happened is known all the same
		r.Error = fmt.Sprintf("its result cannot be made of the answer: %v", err)
	}
	if err != nil || result == nil {
		result = resultLost
	}
	return r, result, nil
}
