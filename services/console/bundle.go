package console

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Bounds of a bundle: with them it has less than a megabyte.
const (
	BundleRows      = 50      // of the journal, the newest
	BundleRowBytes  = 4 << 10 // of what a row says
	BundleBodyBytes = 16 << 10
	BundleEffects   = 200
)

// Bundle is everything about one run that who looks after it needs, in one piece. It
// is read without folding the journal, so a damaged one has a bundle, too.
type Bundle struct {
	Situation
	Reason  Reason
	Problem *events.Problem // what parked or ended the run
	// Rows are the newest of the journal, the oldest of them first.
	Rows []events.RunEvent
	// Pins are the definitions that it executes; empty when its rows do not say.
	Pins    []events.Ref
	Effects []BundleEffect // those in doubt first
	More    bool           // there are more effects
	Next    []string       // commands that end what it waits for
}

// BundleEffect is a call of the run and what the ledger has of its effect, without
// arguments and results.
type BundleEffect struct {
	CallID   events.CallID
	Tool     string
	Status   string // of the call
	EffectID string // empty: it changes nothing
	Key      string
	State    string
	InDoubt  string // the tool's policy
	Attempts int
	Worker   string
	Error    json.RawMessage
	At       time.Time
}

// BundleReader reads what only a bundle shows.
type BundleReader interface {
	// LastEvents returns the newest rows of a run's journal, the oldest first, without
	// what has more than BundleRowBytes, and what its first row says, as it is.
	LastEvents(ctx context.Context, namespace string, run events.RunID, limit int) (rows []events.RunEvent, pinned []json.RawMessage, err error)
	// RunEffects lists the calls of a run that changed something or may have, those
	// in doubt first, at most limit.
	RunEffects(ctx context.Context, namespace string, run events.RunID, limit int) ([]BundleEffect, error)
}

// BundleOf collects a run's bundle; ErrNotFound outside the namespace.
func (s *Service) BundleOf(ctx context.Context, namespace string, id events.RunID) (Bundle, error) {
	situation, err := s.Situation(ctx, namespace, id)
	if err != nil {
		return Bundle{}, err
	}
	b := Bundle{Situation: situation, Reason: Why(situation), Problem: problemIn(situation.Run.Error)}
	var pinned []json.RawMessage
	if b.Rows, pinned, err = s.LastEvents(ctx, namespace, id, BundleRows); err != nil {
		return Bundle{}, err
	}
	for _, raw := range pinned {
		if pins := pinsIn(raw); pins != nil {
			b.Pins = pins
		}
	}
	if b.Effects, err = s.RunEffects(ctx, namespace, id, BundleEffects+1); err != nil {
		return Bundle{}, err
	}
	if b.More = len(b.Effects) > BundleEffects; b.More {
		b.Effects = b.Effects[:BundleEffects]
	}
	b.Next = b.next()
	return b, nil
}

func problemIn(raw json.RawMessage) *events.Problem {
	var p events.Problem
	if len(raw) == 0 || json.Unmarshal(raw, &p) != nil || p.Code == "" && p.Message == "" {
		return nil
	}
	return &p
}

// pinsIn reads what a row pins; nil when it cannot be read.
func pinsIn(raw json.RawMessage) []events.Ref {
	var row events.RunStarted
	if json.Unmarshal(raw, &row) != nil || row.Ref.Name == "" {
		return nil
	}
	pins := []events.Ref{row.Ref}
	if row.Model != nil {
		pins = append(pins, *row.Model)
	}
	return slices.Concat(pins, row.Fallbacks, row.Tools, row.Steps, row.Pools, row.Starts)
}

// next lists the commands that end what the run waits for, what helps most first. It
// is pure.
func (b Bundle) next() []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	id := b.Run.ID
	for _, e := range b.Effects {
		if e.State == "unknown" && len(out) < 10 {
			add("holdfast effects resolve %s VERDICT   # happened, not_happened or give_up: look at the other side", e.EffectID)
		}
	}
	for _, a := range b.Approvals {
		if len(out) < 20 {
			add("holdfast approvals show %s", a.ID)
		}
	}
	switch {
	case b.Run.Kind == KindProgram:
	case b.Run.Status == events.StatusAttention:
		if b.Problem != nil && b.Problem.Code == "damaged" {
			add("holdfast runs fork %s --at ROW   # goes on from before the damage, with the ledger's answers", id)
		}
		add("holdfast runs resume %s   # once the cause is mended", id)
		add("holdfast runs fork %s   # another way, from an earlier row", id)
		add("holdfast runs cancel %s", id)
	case b.Run.Status == events.StatusFailed, b.Run.Status == events.StatusExpired:
		add("holdfast runs retry %s", id)
	case b.Run.Status == events.StatusPaused:
		add("holdfast runs resume %s", id)
	case !events.Ended(b.Run.Status):
		add("holdfast runs watch %s", id)
	}
	return append(out, "holdfast doctor")
}
