package approvals

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Deferral puts a request off: it waits on, out of the inbox, until its time. By and
// Door come from the verified identity and the door.
type Deferral struct {
	ID        events.ApprovalID
	Namespace string
	Until     time.Time     // by the database's clock; zero with For
	For       time.Duration // from now; both zero: it is shown again at once
	Comment   string
	By, Door  string
	Groups    []string // of By
	Role      string   // of By
}

func (d Deferral) person() Person { return Person{Name: d.By, Groups: d.Groups, Role: d.Role} }

// AuditDeferred is the audit's row of a deferral.
const AuditDeferred = "deferred"

// JudgeDefer says what becomes of a deferral of r at now, and until when it is: zero
// when it is shown again. It never reaches the expiry, unless the request waits on then: what
// is put off beyond it would be decided by nobody. Who may not decide may not put it off. It is pure.
func JudgeDefer(r Request, d Deferral, now time.Time) (until time.Time, outcome Outcome) {
	if MayNot(r, d.person()) != "" {
		return time.Time{}, NotAllowed
	}
	switch r.State {
	case StatePending:
	case events.Expired:
		return time.Time{}, TooLate
	case events.Withdrawn:
		return time.Time{}, Gone
	default:
		return time.Time{}, Lost
	}
	if r.Late(now) {
		return time.Time{}, TooLate
	}
	if until = d.Until; until.IsZero() && d.For == 0 {
		return time.Time{}, Decided
	}
	if until.IsZero() {
		until = now.Add(d.For)
	}
	if !until.After(now) || r.Late(until) || until.After(now.Add(maxPeriod)) {
		return time.Time{}, Unfit
	}
	return until, Decided
}

// Defer puts a request off, also one that was before. People in its channel are told
// again when its time has come. Conflict when it has ended; ErrInvalid; ErrNotFound.
func (s *Service) Defer(ctx context.Context, d Deferral) (Request, error) {
	switch {
	case d.By == "":
		return Request{}, fmt.Errorf("%w: nobody defers: the principal is empty", ErrInvalid)
	case !d.Until.IsZero() && d.For != 0:
		return Request{}, fmt.Errorf("%w: say until when or for how long, not both", ErrInvalid)
	case d.For < 0:
		return Request{}, fmt.Errorf("%w: nothing can be put off for %s", ErrInvalid, d.For)
	case !utf8.ValidString(d.Comment) || utf8.RuneCountInString(d.Comment) > MaxCommentChars:
		return Request{}, fmt.Errorf("%w: comment is not text of at most %d characters", ErrInvalid, MaxCommentChars)
	}
	r, outcome, err := s.decider.Defer(ctx, d)
	if err != nil {
		return Request{}, err
	}
	switch outcome {
	case Decided:
		s.log.InfoContext(ctx, "approval deferred", telemetry.KeyApprovalID, r.ID, telemetry.KeyRunID, r.RunID, telemetry.KeyPrincipal, d.By)
		return r, nil
	case NotAllowed:
		return r, &Conflict{Outcome: NotAllowed, Request: r, Detail: MayNot(r, d.person())}
	case Unfit:
		return r, &Conflict{Outcome: Unfit, Request: r, Detail: fmt.Sprintf("it can be put off to a time that is still to come and before it expires at %s", stamp(r.ExpiresAt))}
	}
	return r, &Conflict{Outcome: outcome, Request: r}
}
