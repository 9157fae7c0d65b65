package approvals

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

// OpenAction is the action of a click that asks for a page of one's own, where
// arguments can be changed.
const OpenAction = "open"

// moreOf lists what else people of a channel may do about r in a message: put it off,
// and open a page of their own. Who may is judged when somebody clicks.
func moreOf(r Request, c *spec.Channel, linked bool, now time.Time) (out []Choice) {
	for _, p := range c.People {
		for _, s := range SpansOf(r, personOf(p), c.Digest, now) {
			out = append(out, Choice{s.Action, s.Label, ""})
		}
		if out != nil {
			break
		}
	}
	if linked {
		out = append(out, Choice{OpenAction, "Open to look or change", ""})
	}
	return out
}

// more does what a click wants that decides nothing; false when it wants a decision.
func (s *Service) more(ctx context.Context, c *spec.Channel, r Request, who Person, k Click) (bool, error) {
	switch {
	case k.Action == OpenAction:
		return true, s.open(ctx, c, r, who, k)
	case !strings.HasPrefix(k.Action, DeferAction):
		return false, nil
	}
	put, err := s.DeferBy(ctx, r, who, c.Digest, k.Action, k.Text, DoorSlack)
	_, conflict := errors.AsType[*Conflict](err)
	switch {
	case err == nil && put.DeferredUntil.IsZero():
		s.reply(c, k, Answer{Text: "It is in the inbox again."})
	case err == nil:
		s.reply(c, k, Answer{Text: "It is " + DeferredText(put, time.Time{}) + "; the channel is told again then. It can be decided all the while."})
	case conflict, errors.Is(err, ErrInvalid), errors.Is(err, ErrNotFound):
		s.reply(c, k, Answer{Text: err.Error()})
	default:
		return true, err
	}
	return true, nil
}

// open gives who clicked a link of their own, in a message that nobody else sees.
func (s *Service) open(ctx context.Context, c *spec.Channel, r Request, who Person, k Click) error {
	why := MayNot(r, who)
	switch {
	case why != "":
		s.reply(c, k, Answer{Text: (&Conflict{Outcome: NotAllowed, Request: r, Detail: why}).Error()})
		return nil
	case s.publicURL == nil || s.publicURL() == "" || s.links == nil:
		s.reply(c, k, Answer{Text: "Nobody said where people reach this installation; or: holdfast approvals show " + string(r.ID)})
		return nil
	}
	link, err := mintLink(ctx, s.links, s.publicURL(), r, c.Name, who.Name)
	if err != nil {
		return err
	}
	s.reply(c, k, Answer{Text: "This page is yours alone: do not pass it on.", Link: link})
	return nil
}
