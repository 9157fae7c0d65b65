package httpapi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

// maxTouched is how many runs and calls a question about an order lists.
const maxTouched = 50

// askCancel lists what a cancel takes back, what it waits for and which runs end with it.
func (a *api) askCancel(ctx context.Context, p *orderPage) error {
	p.Title, p.Press, p.Final, p.Cannot = "Cancel the run", "Cancel the run for good", true, !p.offers.cancellable()
	if p.Cannot {
		p.Says = []string{"There is nothing to cancel: " + p.Why.Sentence + "."}
		return nil
	}
	p.Says = []string{"Calls that have not begun are taken back, and what people are asked is withdrawn. A call that has begun is awaited for 30 seconds at most, so that its outcome is known. What it has changed stays."}
	if p.offers.pausable() {
		p.Instead = "pause"
	}
	for _, w := range p.offers.waits {
		if w.Kind != "child" && len(p.Touches) < maxTouched {
			p.Touches = append(p.Touches, touched{Text: w.Phrase})
		}
	}
	open, alone, err := a.below(ctx, p)
	if err != nil {
		return err
	}
	for _, r := range open {
		p.Touches = append(p.Touches, touched{Text: fmt.Sprintf("is %s and ends too", r.Status), Href: "/ui/runs/" + string(r.ID), Link: r.Name + " " + r.ParentItem})
	}
	if len(open) >= maxTouched {
		p.Touches = append(p.Touches, touched{Text: "There are more runs below it; they end too."})
	}
	if len(alone) > 0 {
		p.Fields = append(p.Fields, orderField{Name: "alone", Kind: "tick", Value: "yes", Label: fmt.Sprintf("Cancel the %d runs too that it started and does not wait for", len(alone))})
	}
	p.Fields = append(p.Fields, reasonField)
	return nil
}

// below lists the open runs that end with the run, and those that it started and does
// not wait for.
func (a *api) below(ctx context.Context, p *orderPage) (with, alone []console.Run, err error) {
	runs, err := a.console.Runs(ctx, console.RunFilter{Namespace: p.Namespace, Parent: p.Run.ID, Open: true, Limit: 2 * maxTouched})
	for _, r := range runs {
		if slices.Contains(p.detached, r.ID) {
			alone = append(alone, r)
		} else if len(with) < maxTouched {
			with = append(with, r)
		}
	}
	return with, alone, err
}

// cancelOrder cancels the run, and if asked to those that it left alone.
func (a *api) cancelOrder(ctx context.Context, p *orderPage) (events.RunID, error) {
	o := console.Order{Kind: events.RunCancel, Reason: p.reason()}
	if p.posted("alone") == "yes" {
		_, alone, err := a.below(ctx, p)
		if err != nil {
			return "", err
		}
		for _, r := range alone {
			key := p.key()
			if key != "" {
				key += "/" + string(r.ID)
			}
			if err := o.Check(); err != nil {
				return "", invalid(err)
			}
			if _, _, err := a.console.Command(ctx, p.Namespace, p.Name, key, r.ID, o); err != nil && !errors.Is(err, console.ErrEnded) {
				return "", problem(err, "run %s", r.ID)
			}
		}
	}
	id, err := a.give(ctx, p, o)
	if errors.Is(err, console.ErrEnded) { // its end came first
		return p.Run.ID, nil
	}
	return id, err
}
