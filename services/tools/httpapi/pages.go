package httpapi

import (
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/services/tools"
)

// pages serves the console's pages of the ledger and of the emergency stop. They
// work without script; who reads and acts comes from the session.
type pages struct{ api }

const (
	effectsPath = "/ui/effects"
	stopsPath   = "/ui/stops"
)

func registerPages(d *door.Door, a api) {
	p := pages{a}
	d.Page("GET "+effectsPath, authn.Viewer, p.effects)
	d.Page("GET "+effectsPath+"/{id}", authn.Viewer, p.effect)
	d.Page("POST "+effectsPath+"/{id}", authn.Admin, p.settle)
	registerStopPages(d, p)
}

// utcOf reads a time that somebody typed, in UTC; the zero time when there is none.
func utcOf(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.RFC3339, time.DateOnly, "2006-01-02 15:04"} {
		if t, err := time.ParseInLocation(layout, text, time.UTC); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%s is not a time like 2026-03-05T02:14", name)
}

// option is one choice of a filter.
type option struct{ Value, Label string }

// stateOptions are the states of effects in words.
var stateOptions = []option{
	{tools.EffectInDoubt, "in doubt"}, {tools.EffectIntent, "on its way"}, {tools.EffectAwaiting, "waits for its result"}, {tools.EffectHeld, "held by a stop"},
	{tools.EffectSucceeded, "happened"}, {tools.EffectFailed, "did not happen"}, {tools.EffectUnknown, "not known, settled or not"}, {tools.EffectExpired, "key used up"},
}
