package httpapi

import (
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/web"
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
	page := func(here string, h func(http.ResponseWriter, *http.Request, authn.Principal) error) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			who, _ := authn.FromContext(r.Context())
			err := h(w, r, who)
			if err == nil {
				return
			}
			problem := door.From(err)
			if problem.Status >= http.StatusInternalServerError {
				door.Fail(w, r, err) // and logs it
				return
			}
			data := problemPage{Frame: frameOf(who, "Not done", here), Detail: problem.Detail, Back: "/ui/" + here}
			if err := web.Write(w, problem.Status, "problem", data); err != nil {
				door.Fail(w, r, err)
			}
		})
	}
	d.Raw("GET "+effectsPath, authn.Viewer, page("effects", p.effects))
	d.Raw("GET "+effectsPath+"/{id}", authn.Viewer, page("effects", p.effect))
	d.Raw("POST "+effectsPath+"/{id}", authn.Admin, page("effects", p.settle))
	registerStopPages(d, p, page)
}

// problemPage says what went wrong with what somebody asked for.
type problemPage struct {
	web.Frame
	Detail, Back string
}

func frameOf(who authn.Principal, title, here string) web.Frame {
	return web.Frame{Title: title, Namespace: who.Namespace, Name: who.Name, Role: who.Role.String(), Here: here, At: time.Now().UTC()}
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
