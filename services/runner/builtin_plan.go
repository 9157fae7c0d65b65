package runner

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// planCall is a call of the built-in plan. It changes all that it names or
// nothing.
func (d *decision) planCall(_ *Plan, c *Call) (*events.Problem, error) {
	var args struct {
		Items  []events.PlanItem `json:"items"`
		Update []planChange      `json:"update"`
	}
	if err := json.Unmarshal(c.Args, &args); err != nil {
		return refuseHere("%v", err), nil
	}
	body := events.PlanChanged{CallID: c.CallID, Replace: args.Items != nil}
	switch {
	case args.Items != nil && args.Update != nil:
		return refuseHere("items replaces the whole plan and update changes parts of it: give one of the two"), nil
	case args.Items != nil:
		for i := range args.Items {
			if args.Items[i].State == "" {
				args.Items[i].State = events.ItemPending
			}
		}
		body.Items = args.Items
	default:
		var err error
		if body.Items, err = changedItems(d.state.PlanItems, args.Update); err != nil {
			return refuseHere("%v", err), nil
		}
	}
	if err := checkPlan(d.state.PlanItems, body); err != nil {
		return refuseHere("%v", err), nil
	}
	return nil, d.add(events.FactPlanChanged, body, false)
}

// planChange is what a call says about one item; nil leaves it as it is.
type planChange struct {
	ID    string  `json:"id"`
	Title *string `json:"title"`
	State *string `json:"state"`
	Note  *string `json:"note"`
}

// changedItems are the items that changes name, whole and as they are then.
func changedItems(have []events.PlanItem, changes []planChange) ([]events.PlanItem, error) {
	var out []events.PlanItem
	for _, ch := range changes {
		item := events.PlanItem{ID: ch.ID, State: events.ItemPending}
		if i := itemIndex(have, ch.ID); i >= 0 {
			item = have[i]
		} else if ch.Title == nil {
			return nil, fmt.Errorf("the plan has no item %q; give a title to add it", clip(ch.ID, 80))
		}
		set(&item.Title, ch.Title)
		set(&item.State, ch.State)
		set(&item.Note, ch.Note)
		out = append(out, item)
	}
	return out, nil
}

func set(to *string, from *string) {
	if from != nil {
		*to = *from
	}
}

func itemIndex(items []events.PlanItem, id string) int {
	return slices.IndexFunc(items, func(x events.PlanItem) bool { return x.ID == id })
}

// checkPlan refuses what a plan cannot hold. What the schema says of each item
// was looked at before.
func checkPlan(have []events.PlanItem, change events.PlanChanged) error {
	for i, item := range change.Items {
		switch {
		case item.Title == "":
			return fmt.Errorf("item %q has no title", clip(item.ID, 80))
		case itemIndex(change.Items[:i], item.ID) >= 0:
			return fmt.Errorf("item %q stands there twice", clip(item.ID, 80))
		}
	}
	after, size := change.Fold(have), 0
	for _, item := range after {
		size += len(item.ID) + len(item.Title) + len(item.Note)
	}
	switch {
	case len(after) > spec.MaxPlanItems:
		return fmt.Errorf("the plan would have %d items; at most %d are kept. Replace it by a shorter one", len(after), spec.MaxPlanItems)
	case size > spec.MaxPlanBytes:
		return fmt.Errorf("the plan would have %d bytes of text; at most %d are kept. Shorten titles and notes", size, spec.MaxPlanBytes)
	}
	return nil
}

// planChanged folds a row of the plan. What the model reads is a function of the
// row and the plan, so a row is as large as what is new.
func (s *State) planChanged(seq int64, p events.PlanChanged) error {
	s.PlanItems = p.Fold(s.PlanItems)
	if !p.Replace && len(p.Items) == 0 {
		items := s.PlanItems
		if items == nil {
			items = []events.PlanItem{}
		}
		return s.answeredHere(seq, p.CallID, map[string]any{"plan": items})
	}
	return s.answeredHere(seq, p.CallID, planCounts(s.PlanItems))
}

// planCounts is how far a plan is: how many items it has, and how many of them
// are in each state that occurs.
func planCounts(items []events.PlanItem) map[string]int {
	counts := map[string]int{"items": len(items)}
	for _, item := range items {
		counts[item.State]++
	}
	return counts
}
