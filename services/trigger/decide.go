package trigger

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Limits of what a start may carry.
const (
	MaxLabels     = 16
	MaxLabelKey   = 63  // bytes
	MaxLabelValue = 256 // bytes
	MaxKey        = 255 // characters of an Idempotency-Key
)

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
func checkInput(t Target, input json.RawMessage, limit int64) error {
	if int64(len(input)) > limit {
		return Refuse(CodeTooLarge, "input: it has %d bytes after mapping, the limit is %d", len(input), limit)
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

// Repeat decides what a request under a known key is: the start that the key
// named before, or another request that took its key.
func Repeat(st Start, found Delivery) (Accepted, error) {
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
