package runner

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// pendingSlots is a run that waits for its place under its concurrency keys.
const pendingSlots = "slots"

// slotsTimer is what tells a run that it has its place.
const slotsTimer = "slots"

// Entering is a run that comes under concurrency keys.
type Entering struct {
	RunID     events.RunID
	Namespace string
	Priority  string
	Keys      []events.ConcurrencyKey
}

// KeySeen is how a key stands while nobody else can take a place under it.
type KeySeen struct {
	Held    int64          // places that are taken
	Holders []events.RunID // at most ten, the oldest first
	Waiting int64
	Ahead   int64 // of Waiting, those that come before the run
	Shared  bool  // the run above that the key names has its place
}

// Placing is how a run gets under its keys: it has its place, waits for it, or is
// refused.
type Placing struct {
	Refused *events.Problem
	Awaited *events.SlotsAwaited
	Shared  []events.Digest // keys whose place is one of a run above
	Replace []events.ConcurrencyKey
}

// Concurrent keeps which runs are open under concurrency keys.
type Concurrent interface {
	// Enter creates a run under its keys: begin decides, while no other run can take
	// a place under one of them. The run has all of its places or waits for all.
	Enter(ctx context.Context, e Entering, begin func([]KeySeen) (Commit, Placing, error)) (at time.Time, err error)
	// GrantSlots gives places that are free to the runs that are first in line, at
	// most limit of them, and says how many.
	GrantSlots(ctx context.Context, limit int) (int, error)
	// UntoldSlots takes the runs that do not know yet that they have their place or
	// are replaced; one that still does not is taken again after a while.
	UntoldSlots(ctx context.Context, limit int) ([]SlotNews, error)
	// DropKeys forgets keys that nobody has used for an hour.
	DropKeys(ctx context.Context) error
}

// SlotNews is what a run is to be told.
type SlotNews struct {
	RunID      events.RunID
	Namespace  string
	Shown      string
	ReplacedBy events.RunID // empty: it has its place
	Tries      int
}

// enter judges a run by how its keys stand. It is pure.
func enter(keys []events.ConcurrencyKey, seen []KeySeen) (e Placing) {
	for i, k := range keys {
		s := seen[i]
		if s.Shared {
			e.Shared = append(e.Shared, k.Key)
			continue
		}
		full := s.Held >= k.Max
		switch {
		case k.WhenFull == spec.WhenFullReject && full:
			e.Refused = noPlace(k, s, "")
		case k.WhenFull == spec.WhenFullQueue && k.QueueMax > 0 && (full || s.Ahead > 0) && s.Waiting >= k.QueueMax:
			e.Refused = noPlace(k, s, fmt.Sprintf(", and %d runs wait, as many as may", s.Waiting))
		}
		if e.Refused != nil {
			return Placing{Refused: e.Refused}
		}
		replaces := k.WhenFull == spec.WhenFullReplace
		if replaces && (full || s.Waiting > 0) { // who waits goes, room or not
			e.Replace = append(e.Replace, k)
		}
		if e.Awaited == nil && (full || s.Ahead > 0 && !replaces) {
			e.Awaited = &events.SlotsAwaited{Key: k.Shown, Name: k.Name, Max: k.Max, Held: s.Held, Holders: s.Holders, Ahead: s.Ahead, Replaces: replaces}
			if replaces {
				e.Awaited.Ahead = 0
			}
		}
	}
	return e
}

func noPlace(k events.ConcurrencyKey, s KeySeen, more string) *events.Problem {
	return &events.Problem{Code: "concurrency", Message: clip(fmt.Sprintf("%s: %d of %d places are taken%s%s; start it again when one is free",
		keyName(k.Shown, k.Name), s.Held, k.Max, holders(s.Holders), more), 2000)}
}

// keyName says which key it is.
func keyName(shown, name string) string {
	switch {
	case name == "":
		return "concurrency key " + shown + " of the namespace"
	case shown == "agent "+name || shown == "flow "+name:
		return "concurrency of " + shown
	}
	return "concurrency key " + shown + " of " + name
}

func holders(runs []events.RunID) string {
	switch len(runs) {
	case 0:
		return ""
	case 1:
		return ", by run " + string(runs[0])
	}
	return fmt.Sprintf(", by run %s and %d more", runs[0], len(runs)-1)
}

// waitingForSlots is what a queued run waits for.
func waitingForSlots(b events.SlotsAwaited) string {
	text := fmt.Sprintf("a place under %s: %d of %d were taken%s", keyName(b.Key, b.Name), b.Held, b.Max, holders(b.Holders))
	switch {
	case b.Replaces:
		text += ", which is replaced"
	case b.Ahead > 0:
		text += fmt.Sprintf(", %d runs waited before it", b.Ahead)
	}
	return text
}

// pinKeys evaluates the concurrency keys of a start into its first row. A key
// without a value fails the run: the start was accepted.
func pinKeys(plan *Plan, start *Start) {
	list := plan.concurrency(start.Body.Ref)
	keys, err := spec.ConcurrencyKeys(list, start.Body.Ref, start.Body.Input, start.Body.Labels, start.Body.Trigger)
	if err != nil {
		if start.Broken == nil {
			start.Broken = &events.Problem{Code: "concurrency_key", Message: clip(err.Error(), 2000)}
		}
		return
	}
	if p := start.Body.Parent; p != nil {
		for i := range keys {
			for _, h := range p.Holds {
				if h.Key == keys[i].Key {
					keys[i].Of = h.RunID
				}
			}
		}
	}
	start.Body.Concurrency = keys
}

func (p *Plan) concurrency(ref events.Ref) []spec.Concurrency {
	switch {
	case ref.Kind == events.KindFlow && p.Flow != nil:
		return p.Flow.Concurrency
	case ref.Kind == events.KindAgent && p.Agent != nil:
		return p.Agent.Concurrency
	}
	return nil
}

// holds are the keys that children of the run share.
func (s *State) holds() []events.HeldKey {
	var out []events.HeldKey
	for _, k := range s.Started.Concurrency {
		h := events.HeldKey{Key: k.Key, RunID: s.RunID}
		if slices.Contains(s.Shared, k.Key) {
			h.RunID = k.Of
		}
		out = append(out, h)
	}
	if p := s.Started.Parent; p != nil {
		for _, h := range p.Holds {
			if !slices.ContainsFunc(out, func(o events.HeldKey) bool { return o.Key == h.Key }) {
				out = append(out, h)
			}
		}
	}
	return out
}

func (s *State) shownKeys() (out []string) {
	for _, k := range s.Started.Concurrency {
		out = append(out, k.Shown)
	}
	return out
}

// entered adds what the entry says to the rows of a run that begins.
func (d *decision) entered(e Placing) error {
	switch {
	case e.Refused != nil:
		return d.add(events.FactFailed, events.Ending{Error: e.Refused}, false)
	case e.Awaited != nil:
		e.Awaited.Shared = e.Shared
		return d.add(events.FactSlotsAwaited, *e.Awaited, false)
	}
	return d.add(events.FactSlotsTaken, events.SlotsTaken{Keys: d.state.shownKeys(), Shared: e.Shared}, false)
}

// hasSlots records that a queued run has its place.
func (d *decision) hasSlots(in Input) error {
	if !d.state.Queued {
		return d.late(in)
	}
	return d.add(events.FactSlotsTaken, events.SlotsTaken{Keys: d.state.shownKeys(), Shared: d.state.Shared}, true)
}

func (s *State) slotsAwaited(b events.SlotsAwaited) { s.SlotWait, s.Shared = &b, b.Shared }

func (s *State) slotsTaken(b events.SlotsTaken) {
	s.Queued, s.SlotWait, s.Shared = false, nil, b.Shared
}

// enterRun creates a run under its concurrency keys. rows is what it begins with,
// for the entry that it got.
func (s *Service) enterRun(ctx context.Context, m events.Received, plan *Plan, before *State, started events.RunStarted, now time.Time, rows func(Placing) (Decision, error)) (*claimed, error) {
	var c Commit
	e := Entering{RunID: before.RunID, Namespace: before.Namespace, Priority: started.Priority, Keys: started.Concurrency}
	at, err := s.store.Enter(ctx, e, func(seen []KeySeen) (Commit, Placing, error) {
		entry := enter(e.Keys, seen)
		d, err := rows(entry)
		if err != nil {
			return Commit{}, Placing{}, fault.Terminal("decide", err)
		}
		c = Commit{Before: before, After: d.State, Facts: d.Facts, Worker: s.worker, Cause: m.ID, CancelledAt: now, MaxTreeRuns: s.cfg.MaxTreeRuns}
		c.Notices, err = s.notices(ctx, c.After, c.Facts)
		return c, entry, err
	})
	if err != nil {
		return nil, err
	}
	s.metrics.committed(ctx, c.Before, c.After)
	s.cache.put(c.After)
	if err := s.follow(ctx, c.After, plan, c.Facts, at); err != nil {
		return nil, err
	}
	if !c.After.OwesModelCall() {
		return nil, nil
	}
	return s.claim(ctx, Loaded{State: c.After}, plan, m)
}
