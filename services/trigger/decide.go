package trigger

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Limits of what a start may carry.
const (
	MaxBody       = 256 << 10 // bytes of a request
	MaxInput      = 512 << 10 // bytes of an input after mapping
	MaxLabels     = 16
	MaxLabelKey   = 63  // bytes
	MaxLabelValue = 256 // bytes
	MaxKey        = 255 // characters of an Idempotency-Key
)

// missedHorizon bounds how far back skipped fires are counted.
const missedHorizon = 31 * 24 * time.Hour

// checkLabels refuses labels that could not be indexed or shown.
func checkLabels(labels map[string]string) error {
	if len(labels) > MaxLabels {
		return Refuse(CodeInvalidLabels, "labels: there are %d, at most %d are kept", len(labels), MaxLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if key == "" || len(key) > MaxLabelKey {
			return Refuse(CodeInvalidLabels, "labels: the key %.70q has %d bytes; use 1 to %d", key, len(key), MaxLabelKey)
		}
		if n := len(labels[key]); n > MaxLabelValue {
			return Refuse(CodeInvalidLabels, "labels.%s: the value has %d bytes; at most %d are kept", key, n, MaxLabelValue)
		}
		for _, text := range []string{key, labels[key]} {
			if err := CheckText(text); err != nil {
				return Refuse(CodeInvalidLabels, "labels.%s: %w", key, err)
			}
		}
	}
	return nil
}

// checkInput refuses an input that the target's schema or the next hop refuses.
func checkInput(t Target, input json.RawMessage) error {
	if len(input) > MaxInput {
		return Refuse(CodeTooLarge, "input: it has %d bytes after mapping, the limit is %d", len(input), MaxInput)
	}
	if err := CheckJSON("input", input); err != nil {
		return err
	}
	if places := t.Validate(input); len(places) > 0 {
		r := Refuse(CodeInvalidInput, "the input does not fit the schema of %s %s", t.Ref.Kind, t.Ref.Name)
		r.Places = places
		return r
	}
	return nil
}

// repeat decides what a request under a known key is: the start that the key
// named before, or another request that took its key.
func repeat(st Start, found Delivery) (Accepted, error) {
	if st.Strict && st.Digest != found.Digest {
		return Accepted{}, Refuse(CodeKeyReused, "%w: the key %.60q started run %s; send the same request, or another key",
			ErrKeyReused, st.Key, found.RunID)
	}
	return Accepted{RunID: found.RunID, DeliveryID: found.ID, Repeat: true}, nil
}

// deliveryKey shortens a key that would be too long to index. Equal keys stay
// equal.
func deliveryKey(key string) string {
	if len(key) <= MaxKey {
		return key
	}
	return string(events.DigestOf([]byte(key)))
}

// place computes the hand of a schedule as it should be now; nil when it needs
// no change. have is nil for a schedule without a hand. A definition that cannot
// fire has a hand without a next fire.
//
// A hand that is due is left to the tick, also when the definition has just
// changed: the new version fires what is due by its own expression, so saving a
// schedule at the moment of its fire loses nothing. A schedule that was paused
// goes on with the first fire after now.
func place(def Schedule, have *Hand, now time.Time, plan Planner) *Hand {
	next := Hand{Namespace: def.Namespace, Name: def.Name, Digest: def.Digest, Paused: def.Paused}
	if have != nil {
		next.Missed, next.Version = have.Missed, have.Version
	}
	due := have != nil && have.Next != nil && !have.Next.At.After(now)
	switch {
	case def.Paused || def.Broken != nil:
	case due && have.Digest == def.Digest:
		return nil
	case due:
		next.Next = firstFire(def, have.Next.At.Add(-time.Nanosecond), plan)
	default:
		next.Next = firstFire(def, now, plan)
	}
	if have != nil && sameHand(*have, next) {
		return nil
	}
	return &next
}

func sameHand(a, b Hand) bool {
	if a.Digest != b.Digest || a.Paused != b.Paused || (a.Next == nil) != (b.Next == nil) {
		return false
	}
	return a.Next == nil || a.Next.At.Equal(b.Next.At) && a.Next.Key() == b.Next.Key()
}

func firstFire(def Schedule, after time.Time, plan Planner) *Fire {
	fires, err := plan.Fires(def.Cron, def.TimeZone, after)
	if err != nil {
		return nil // refused when it is applied; a row from elsewhere just never fires
	}
	for f := range fires {
		return &f
	}
	return nil
}

// due decides which fires of a hand that is due start runs. Fires that were
// found late make at most one catch-up: the newest within window, with those of
// its very instant. The rest is missed.
func due(def Schedule, h Hand, now time.Time, window time.Duration, plan Planner) (fires []Fire, next *Fire, missed int64, err error) {
	from := h.Next.At
	if oldest := now.Add(-missedHorizon); from.Before(oldest) {
		from = oldest
	}
	all, err := plan.Fires(def.Cron, def.TimeZone, from.Add(-time.Nanosecond))
	if err != nil {
		return nil, nil, 0, fmt.Errorf("schedule %s: %w", h.Name, err)
	}
	for f := range all {
		if f.At.After(now) {
			next = &f
			break
		}
		if len(fires) > 0 && !fires[0].At.Equal(f.At) {
			missed += int64(len(fires))
			fires = nil
		}
		fires = append(fires, f)
	}
	if len(fires) > 0 && fires[0].At.Before(now.Add(-window)) {
		missed += int64(len(fires))
		fires = nil
	}
	return fires, next, missed, nil
}
