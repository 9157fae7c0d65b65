package events

import (
	"strings"
	"unicode"
)

// ConcurrencyKey is one limit that a run is under, its key evaluated.
type ConcurrencyKey struct {
	// Key says which runs count together: a digest over what the definition named.
	Key      Digest `json:"key"`
	Shown    string `json:"shown"`          // for people; bounded
	Name     string `json:"name,omitempty"` // of the agent or flow; absent for a key of the whole namespace
	Max      int64  `json:"max"`
	WhenFull string `json:"when_full"` // queue, replace or reject
	QueueMax int64  `json:"queue_max,omitempty"`
	// Of is the run above whose place this run shares: its own, while it has one.
	Of RunID `json:"of,omitempty"`
}

// HeldKey is a key that a run above holds.
type HeldKey struct {
	Key   Digest `json:"key"`
	RunID RunID  `json:"run_id"`
}

// SlotsAwaited is a run that waits for its place under a key.
type SlotsAwaited struct {
	Key     string  `json:"key"` // as it is shown; the first of those that are full
	Name    string  `json:"name,omitempty"`
	Max     int64   `json:"max"`
	Held    int64   `json:"held"`              // places that were taken
	Holders []RunID `json:"holders,omitempty"` // of them, at most ten
	Ahead   int64   `json:"ahead"`             // runs that waited before it
	// Replaces says that the runs before it are cancelled in its favour.
	Replaces bool `json:"replaces,omitempty"`
	// Shared is the keys whose places are those of runs above.
	Shared []Digest `json:"shared,omitempty"`
}

// SlotsTaken is a run that has its place under all of its keys. It keeps them until
// it ends.
type SlotsTaken struct {
	Keys   []string `json:"keys"`             // as they are shown
	Shared []Digest `json:"shared,omitempty"` // of them, whose places are those of runs above
}

// maxShownKey bounds what people read of a key, in runes.
const maxShownKey = 120

// ShownKey is a key as people read it: one line, bounded.
func ShownKey(key string) string {
	key = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, key)
	if runes := []rune(key); len(runes) > maxShownKey {
		key = string(runes[:maxShownKey-1]) + "…"
	}
	return key
}
