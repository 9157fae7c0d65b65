package console

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// PlaceWait is a queued run's wait under one of its concurrency keys.
type PlaceWait struct {
	Key        string // as it is shown
	Name       string // of the agent or flow; empty for a key of the namespace
	Max        int64
	Since      time.Time
	Held       int64          // places that are taken
	Holders    []events.RunID // at most ten, the oldest first
	Ahead      int64          // runs that come before it
	ReplacedBy events.RunID   // in whose favour it is to end
}

// String says what it waits for.
func (w PlaceWait) String() string {
	of := ""
	if w.Name != "" && w.Key != "agent "+w.Name && w.Key != "flow "+w.Name {
		of = " of " + w.Name
	}
	if w.ReplacedBy != "" {
		return fmt.Sprintf("replaced by run %s for concurrency key %s%s, and ends", w.ReplacedBy, w.Key, of)
	}
	text := fmt.Sprintf("queued behind %d runs for concurrency key %s%s since %s; %d of %d places are taken", w.Ahead, w.Key, of, at(w.Since), w.Held, w.Max)
	if len(w.Holders) > 0 {
		text += ", by run " + string(w.Holders[0])
	}
	if n := len(w.Holders); n > 1 {
		text += fmt.Sprintf(" and %d more", w.Held-1)
	}
	return text
}

// place explains a queued run.
func (s Situation) place(p Pending) []Wait {
	if len(s.Places) == 0 {
		return []Wait{{Kind: "queue", Name: p.Detail, Since: p.Since, Phrase: "has its place under concurrency key " + p.Detail + " and is about to begin"}}
	}
	var out []Wait
	for _, w := range s.Places {
		out = append(out, Wait{Kind: "queue", Name: w.Key, Since: w.Since, Phrase: w.String()})
	}
	return out
}

// ConcurrencyKey is how one key stands.
type ConcurrencyKey struct {
	ID      string // digest of the key
	Key     string // as it is shown
	Name    string // of the agent or flow; empty for a key of the namespace
	Max     int64  // of the newest run under it
	Held    int64
	Holders []events.RunID // at most ten, the oldest first
	Waiting int64
	Next    []events.RunID // at most ten of those that wait, in their order
}

// KeyPlace is where a page of concurrency keys ends; with an empty ID the list begins.
type KeyPlace struct {
	Waiting int64  `json:"w"`
	Held    int64  `json:"h"`
	ID      string `json:"k"`
}

// Place is the place of k in the list.
func (k ConcurrencyKey) Place() KeyPlace { return KeyPlace{Waiting: k.Waiting, Held: k.Held, ID: k.ID} }

// ConcurrencyReader reads how concurrency keys stand.
type ConcurrencyReader interface {
	// Concurrency lists at most limit keys behind a place under which runs are open,
	// those with the longest queue first; with a name those of that agent or flow.
	Concurrency(ctx context.Context, namespace, name string, after KeyPlace, limit int) ([]ConcurrencyKey, error)
}
