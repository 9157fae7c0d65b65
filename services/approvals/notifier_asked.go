package approvals

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// gone is the verdict of a message that nobody needs any more.
const gone Verdict = -1

// maxUpdates is how often a message is tried to be changed.
const maxUpdates = 10

// ask tells people of a request that waits: in the channel, or each person alone
// with a link of their own.
func (x *Notifier) ask(ctx context.Context, def *spec.Channel, by Channel, n *Notice) Delivery {
	later := func(format string, args ...any) Delivery { return Delivery{Problem: fmt.Sprintf(format, args...)} }
	r, err := x.Requests.Get(ctx, n.Namespace, n.ApprovalID)
	switch {
	case errors.Is(err, ErrNotFound):
		return Delivery{Verdict: Refused, Problem: "there is no such request"}
	case err != nil:
		return later("the request cannot be read now")
	case r.Ended():
		return Delivery{Verdict: gone, Problem: "the request ended before this was sent"}
	}
	if def.Email != nil && len(def.People) > 0 && n.Person == "" {
		var people []string
		for _, p := range def.People {
			if MayNot(r, personOf(p)) == "" {
				people = append(people, p.Name)
			}
		}
		if len(people) == 0 {
			return Delivery{Verdict: Refused, Problem: "none of the people of the channel may decide this"}
		}
		if err := x.Notices.Split(ctx, n.NoticeID, n.Attempts, people); err != nil {
			return later("the messages to each person cannot be stored now")
		}
		n.Person = people[0]
		x.Kick()
	}
	told := r
	if n.Person == "" {
		told = r.toldIn(def)
	}
	m := TellAsked(told)
	m.ID = string(n.NoticeID) // a request may be told of more than once
	switch {
	case reminds(*n):
		tellAgain(&m, told, "Reminder")
	case escalates(*n):
		tellAgain(&m, told, "Escalated")
	}
	if n.Person != "" {
		p, ok := def.Person(n.Person)
		if !ok {
			return Delivery{Verdict: Refused, Problem: n.Person + " is no longer among the people of the channel"}
		}
		if why := MayNot(r, personOf(p)); why != "" {
			return Delivery{Verdict: Refused, Problem: n.Person + " may not decide this"}
		}
		m.ID, m.To = string(n.NoticeID), p.Email
		if m.Link, err = x.link(ctx, r, *n); err != nil {
			return later("the link cannot be stored now")
		}
	}
	if def.Slack == nil || len(def.People) == 0 {
		m.Ask = nil
	} else if m.Ask != nil {
		m.Ask.Ref, m.Ask.More = refOf(r, n.Channel), moreOf(r, def, x.reached(), time.Now())
	}
	return by.Send(ctx, def, m)
}

// link makes a link for a person; empty when nobody could follow it. Each attempt
// has one of its own, because only its hash is kept.
func (x *Notifier) link(ctx context.Context, r Request, n Notice) (string, error) {
	if !x.reached() {
		return "", nil
	}
	return mintLink(ctx, x.Links, x.PublicURL(), r, n.Channel, n.Person)
}

// reached reports whether people can follow links.
func (x *Notifier) reached() bool { return x.PublicURL != nil && x.PublicURL() != "" }

// updates changes messages until ctx ends.
func (x *Notifier) updates(ctx context.Context) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		x.update(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// update changes messages whose requests have ended, so that nobody clicks in vain.
func (x *Notifier) update(ctx context.Context) {
	found, err := x.Notices.TakeUpdates(ctx, sendAtOnce)
	if err != nil && ctx.Err() == nil {
		x.Log.WarnContext(ctx, "messages to be changed cannot be read", telemetry.KeyErr, err)
	}
	for _, n := range found {
		if d := x.updateOne(ctx, n); d.Verdict == Taken || d.Verdict == Refused || n.Updates >= maxUpdates {
			if d.Verdict != Taken {
				x.Log.WarnContext(ctx, "a message still shows its request as open", "notice", n.NoticeID, "reason", clean(d.Problem, 300, false))
			}
			if err := x.Notices.FinishUpdate(ctx, n.NoticeID); err != nil {
				x.Log.WarnContext(ctx, "a changed message is not recorded and is changed again", telemetry.KeyErr, err)
			}
		}
	}
}

func (x *Notifier) updateOne(ctx context.Context, n Notice) Delivery {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	def, by, err := x.channelOf(ctx, n)
	if err != nil {
		return Delivery{Problem: err.Error()}
	}
	up, ok := by.(Updater)
	if !ok {
		return Delivery{Verdict: Refused, Problem: "the channel is of another kind now"}
	}
	r, err := x.Requests.Get(ctx, n.Namespace, n.ApprovalID)
	if err != nil {
		return Delivery{Problem: "the request cannot be read now"}
	}
	return up.Update(ctx, def, n.Receipt, TellEnded(r.toldIn(def)))
}
