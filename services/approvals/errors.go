package approvals

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNotFound says that the namespace has no such request. A request of
	// another namespace is not found either.
	ErrNotFound = errors.New("no such approval")
	// ErrRunDeleted says that the run that asks was deleted.
	ErrRunDeleted = errors.New("the run was deleted")
	// ErrInvalid is wrapped by every refusal of a decision that could never be
	// right, whatever the state of the request.
	ErrInvalid = errors.New("invalid decision")
)

// Conflict is why a well-formed decision took no effect: somebody or something
// ended the request before, or it asks about something else.
type Conflict struct {
	Outcome Outcome // never Decided, Counted or Repeated
	Request Request // as it stands
	Detail  string  // with Unfit, Mismatch and NotAllowed: why
}

// Error says who decided, when and through which door, and what to do next.
func (c *Conflict) Error() string {
	r := c.Request
	switch c.Outcome {
	case Lost:
		said := fmt.Sprintf("approval %s was already decided: %s by %s at %s through %s",
			r.ID, r.Decision, r.DecidedBy, stamp(r.DecidedAt), r.Door)
		if r.Edit != nil {
			said += " with other arguments"
		}
		if r.UnusedReason != "" {
			return said + "; the run no longer needs it (" + r.UnusedReason + ")"
		}
		return said
	case TooLate:
		return fmt.Sprintf("approval %s expired at %s; nothing was done, and the run has been told or is about to be", r.ID, stamp(r.ExpiresAt))
	case Gone:
		return fmt.Sprintf("approval %s was withdrawn at %s (%s); nothing was done", r.ID, stamp(r.DecidedAt), r.WithdrawReason)
	case NotAllowed:
		return fmt.Sprintf("you may not decide approval %s: %s; nothing was done", r.ID, c.Detail)
	case Mismatch:
		if c.Detail != "" {
			return fmt.Sprintf("approval %s: %s", r.ID, c.Detail)
		}
		return fmt.Sprintf("approval %s asks about %s, not about the digest you confirmed; show it again and decide what you see", r.ID, r.Digest)
	case Unfit:
		return fmt.Sprintf("approval %s is not answered: %s", r.ID, c.Detail)
	case NoComment:
		return fmt.Sprintf("approval %s needs a comment: write why and decide again; nothing was done", r.ID)
	case WrongKind:
		return fmt.Sprintf("approval %s is of kind %s: decide %s", r.ID, r.Kind, choices(r.Kind))
	}
	return fmt.Sprintf("approval %s: %s", r.ID, c.Outcome)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
