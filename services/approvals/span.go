package approvals

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

// DeferAction begins the action of a click that puts a request off.
const DeferAction = "defer-"

// Span is how long a request is put off with one click.
type Span struct {
	Action string // what comes back: DeferAction and a word
	Label  string
	until  time.Time
	length time.Duration // instead of until; both zero: it is shown again at once
}

// morning is when people look again where no channel says it.
var morning = &spec.Digest{At: "08:00", TimeZone: "UTC"}

// spans are all there are. The next morning is the time of the channel's digest, when it
// has one.
func spans(digest *spec.Digest, now time.Time) []Span {
	next := cmp.Or(digest, morning).Next(now)
	return []Span{
		{DeferAction + "1h", "Put off 1 hour", time.Time{}, time.Hour},
		{DeferAction + "4h", "Put off 4 hours", time.Time{}, 4 * time.Hour},
		{DeferAction + "morning", "Put off to " + next.Format("Mon 15:04 MST"), next, 0},
		{DeferAction + "end", "Ask again now", time.Time{}, 0},
	}
}

// SpansOf lists to what p may put r off at now, and, when it is put off, to now. digest
// is of its channel; nil for none. It is pure.
func SpansOf(r Request, p Person, digest *spec.Digest, now time.Time) (out []Span) {
	for _, s := range spans(digest, now) {
		if s.Action == DeferAction+"end" && !r.DeferredUntil.After(now) {
			continue
		}
		if _, outcome := JudgeDefer(r, s.by(p), now); outcome == Decided {
			out = append(out, s)
		}
	}
	return out
}

func (s Span) by(p Person) Deferral {
	return Deferral{Until: s.until, For: s.length, By: p.Name, Groups: p.Groups, Role: p.Role}
}

// DeferBy puts r off as an action of its spans says. ErrInvalid when there is no such
// action; else as Defer. Which morning is next this process's clock says; hours are
// counted by the database's, which judges both.
func (s *Service) DeferBy(ctx context.Context, r Request, p Person, digest *spec.Digest, action, comment, door string) (Request, error) {
	for _, span := range spans(digest, time.Now()) {
		if span.Action == action {
			d := span.by(p)
			d.ID, d.Namespace, d.Comment, d.Door = r.ID, r.Namespace, comment, door
			return s.Defer(ctx, d)
		}
	}
	return r, fmt.Errorf("%w: a request is not put off by %.40q", ErrInvalid, action)
}

// DeferLinked puts off what a link is for in its person's name.
func (s *Service) DeferLinked(ctx context.Context, token, action, comment string) (Request, error) {
	l, r, err := s.Linked(ctx, token)
	if err != nil {
		return Request{}, err
	}
	return s.DeferBy(ctx, r, l.Who(), l.Digest, action, comment, DoorLink)
}

// DeferredText says that r is put off at now, until when and by whom; empty when it is
// not.
func DeferredText(r Request, now time.Time) string {
	if r.Ended() || !r.DeferredUntil.After(now) {
		return ""
	}
	return fmt.Sprintf("put off until %s by %s", r.DeferredUntil.UTC().Format("2006-01-02 15:04 UTC"), r.DeferredBy)
}
