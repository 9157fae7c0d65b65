package events

import (
	"encoding/json"
	"maps"
	"slices"
)

// States of an item of a run's plan.
const (
	ItemPending    = "pending"
	ItemInProgress = "in_progress"
	ItemDone       = "done"
	ItemFailed     = "failed"
	ItemSkipped    = "skipped"
)

// PlanItem is one step of the plan that a run's model keeps.
type PlanItem struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	State string `json:"state"` // ItemPending, ...
	Note  string `json:"note,omitempty"`
}

// PlanChanged is what one call made of the run's plan, and with it the call's
// result. Items are whole: with Replace they are the plan, without it each takes
// the place of the one with its id, or the end. Neither means that the plan was
// read.
type PlanChanged struct {
	CallID  CallID     `json:"call_id"`
	Replace bool       `json:"replace,omitempty"`
	Items   []PlanItem `json:"items,omitempty"`
}

// FactsChanged is what one call made of the facts that the run keeps by name,
// and with it the call's result: Delete first, then Set. Get names what the
// call returned; All, that it returned everything.
type FactsChanged struct {
	CallID CallID                     `json:"call_id"`
	Delete []string                   `json:"delete,omitempty"`
	Set    map[string]json.RawMessage `json:"set,omitempty"` // canonical
	Get    []string                   `json:"get,omitempty"`
	All    bool                       `json:"all,omitempty"`
}

// Fold is the plan after the change. It leaves have as it is.
func (p PlanChanged) Fold(have []PlanItem) []PlanItem {
	if p.Replace {
		return p.Items
	}
	out := slices.Clone(have)
	for _, item := range p.Items {
		if i := slices.IndexFunc(out, func(x PlanItem) bool { return x.ID == item.ID }); i >= 0 {
			out[i] = item
		} else {
			out = append(out, item)
		}
	}
	return out
}

// Fold is what is known after the change. It leaves have as it is.
func (f FactsChanged) Fold(have map[string]json.RawMessage) map[string]json.RawMessage {
	if len(f.Set) == 0 && len(f.Delete) == 0 {
		return have
	}
	out := maps.Clone(have)
	if out == nil {
		out = map[string]json.RawMessage{}
	}
	for _, name := range f.Delete {
		delete(out, name)
	}
	maps.Copy(out, f.Set)
	return out
}
