package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/web"
)

// Bounds of the stops' page: those in force, and those that have ended.
const (
	pageStanding = 200
	pageEnded    = 30
	pageHeld     = 30
)

type stopsPage struct {
	web.Frame
	Standing     []stopView
	Ended        []stopView
	Next         string
	First        bool
	May, MayAll  bool
	Tools        []string
	Scope, Named string // as typed
	Note         string
	Problem      string
}

// stopView is a stop in words.
type stopView struct {
	ID, What, Note, By string
	Since, EndedAt     time.Time
	EndedBy, EndNote   string
	Held               int64
	May                bool // the reader may lift it
}

// stopPage asks before a stop, or before one is lifted.
type stopPage struct {
	web.Frame
	Stop         stopView
	Scope, Named string
	Follows      []string
	Doubtful     string // a name that nothing has
	Held         []effectView
	More         int64
	Problem      string
}

func registerStopPages(d *door.Door, p pages) {
	d.Page("GET "+stopsPath, authn.Viewer, p.stopsList)
	d.Page("POST "+stopsPath, authn.Operator, p.stopForm)
	d.Page("GET "+stopsPath+"/{id}", authn.Viewer, p.stopOne)
	d.Page("POST "+stopsPath+"/{id}", authn.Operator, p.liftForm)
}

func stopViewOf(s tools.Stop, who authn.Principal) stopView {
	return stopView{ID: s.ID, What: stopped(s.Scope, s.Name), Note: s.Note, By: s.By, Since: s.Since, EndedAt: s.EndedAt, EndedBy: s.EndedBy,
		EndNote: s.EndNote, Held: s.Held, May: s.EndedAt.IsZero() && who.Role.Allows(authn.Operator) && mayStop(who, s.Scope) == nil}
}

// stopped names what a stop is about, for people.
func stopped(scope, name string) string {
	switch scope {
	case tools.StopAgent:
		return "agent or flow " + name
	case tools.StopTool:
		return "tool " + name
	}
	return "everything"
}

// stopsList answers GET /ui/stops.
func (p pages) stopsList(w http.ResponseWriter, r *http.Request) error {
	who, _ := authn.FromContext(r.Context())
	q := r.URL.Query()
	return p.showStops(w, r, who, http.StatusOK, stopsPage{Scope: q.Get("scope"), Named: q.Get("name")})
}

func (p pages) showStops(w http.ResponseWriter, r *http.Request, who authn.Principal, status int, data stopsPage) error {
	ctx := r.Context()
	data.Frame = door.FrameOf(r, "Emergency stop")
	data.May, data.MayAll = who.Role.Allows(authn.Operator), who.Role.Allows(authn.Admin)
	standing, err := p.service.Stops(ctx, tools.StopFilter{Namespace: who.Namespace, Standing: true, Limit: pageStanding})
	if err != nil {
		return err
	}
	for _, s := range standing {
		data.Standing = append(data.Standing, stopViewOf(s, who))
	}
	f := tools.StopFilter{Namespace: who.Namespace, Limit: pageEnded + 1}
	var after tools.StopPosition
	if ok, err := door.DecodeCursor(r.URL.Query().Get("cursor"), &after); err != nil {
		return err
	} else if ok {
		f.After = &after
	}
	data.First = f.After == nil
	all, err := p.service.Stops(ctx, f)
	if err != nil {
		return err
	}
	cut := door.NewPage(all, pageEnded, func(s tools.Stop) any { return s.Position() })
	for _, s := range cut.Items {
		if !s.EndedAt.IsZero() {
			data.Ended = append(data.Ended, stopViewOf(s, who))
		}
	}
	if cut.NextCursor != "" {
		data.Next = stopsPath + "?" + url.Values{"cursor": {cut.NextCursor}}.Encode()
	}
	if data.Tools, err = p.service.Ledger().Tools(ctx, who.Namespace); err != nil {
		return err
	}
	switch r.URL.Query().Get("done") {
	case "stopped":
		data.Notice = "Stopped. No process begins such a write any more; what had left before may still arrive."
	case "lifted":
		data.Notice = "Lifted. What was held goes on by itself."
	}
	return web.Write(w, status, "stops", data)
}

// stopForm answers POST /ui/stops: what it would mean, and with sure the stop.
func (p pages) stopForm(w http.ResponseWriter, r *http.Request) error {
	who, _ := authn.FromContext(r.Context())
	typed, err := door.Form(r)
	if err != nil {
		return err
	}
	stop := tools.Stop{Namespace: who.Namespace, Scope: typed.Get("scope"), Name: strings.TrimSpace(typed.Get("name")), Note: strings.TrimSpace(typed.Get("note")), By: who.Name}
	if stop.Scope == tools.StopAll {
		stop.Name = ""
	}
	again := func(status int, text string) error {
		return p.showStops(w, r, who, status, stopsPage{Scope: stop.Scope, Named: typed.Get("name"), Note: stop.Note, Problem: text})
	}
	if err := mayStop(who, stop.Scope); err != nil {
		return again(http.StatusForbidden, sentence(door.From(err).Detail)+" Nothing was stopped.")
	}
	if err := stop.Check(); err != nil {
		return again(http.StatusUnprocessableEntity, sentence(strings.ReplaceAll(strings.TrimPrefix(err.Error(), tools.ErrInvalid.Error()+": "), "\n", "; "))+" Nothing was stopped.")
	}
	if typed.Get("sure") == "yes" {
		if _, err := p.service.StopWrites(r.Context(), stop); err != nil {
			return problem("", err)
		}
		http.Redirect(w, r, stopsPath+"?done=stopped", http.StatusSeeOther)
		return nil
	}
	toll, err := p.service.Ledger().Toll(r.Context(), who.Namespace, stop.Scope, stop.Name)
	if err != nil {
		return err
	}
	data := stopPage{Frame: door.FrameOf(r, "Stop "+stopped(stop.Scope, stop.Name)), Stop: stopViewOf(stop, who), Scope: stop.Scope, Named: stop.Name, Follows: tollText(stop, toll)}
	switch {
	case stop.Scope == tools.StopAgent && toll.Runs == 0:
		data.Doubtful = "No run of that name is open now. Is it spelled right?"
	case stop.Scope == tools.StopTool && toll.UnderWay+toll.Waiting == 0:
		known, err := p.service.Ledger().Tools(r.Context(), who.Namespace)
		if err != nil {
			return err
		}
		seen := false
		for _, name := range known {
			seen = seen || name == stop.Name
		}
		if !seen {
			data.Doubtful = "The ledger has never seen that tool. Is it spelled right? Tools that only read are not stopped."
		}
	}
	return web.Write(w, http.StatusOK, "stop", data)
}

// tollText says what a stop means now.
func tollText(s tools.Stop, t tools.Toll) []string {
	var out []string
	if s.Scope != tools.StopTool {
		text := counted(t.Runs, "run has not ended. It goes", "runs have not ended. They go")
		if s.Scope == tools.StopAgent {
			text = counted(t.Runs, "run of it, or started by one, has not ended. It goes", "runs of it, or started by them, have not ended. They go")
		}
		out = append(out, text+" on until something is to be changed; that waits.")
	}
	out = append(out, counted(t.Waiting, "effect waits", "effects wait")+" for another attempt and will be held.",
		counted(t.UnderWay, "effect has left, or may have,", "effects have left, or may have,")+" and cannot be called back; the outcome is awaited and recorded.")
	if s.Scope != tools.StopAgent {
		out = append(out, "Programs that ask the ledger are told to come back.")
	}
	return append(out, "Models, reads, timers, approvals, schedules and webhooks go on. Nothing is lost: who may stop it may lift it.")
}

func counted(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func (p pages) findStop(r *http.Request, who authn.Principal) (tools.Stop, error) {
	id := r.PathValue("id")
	if !events.ValidToken(id) {
		return tools.Stop{}, noStop(id)
	}
	s, err := p.service.FindStop(r.Context(), who.Namespace, id)
	if errors.Is(err, tools.ErrNotFound) {
		err = noStop(id)
	}
	return s, err
}

// stopOne answers GET /ui/stops/{id}: one stop with what it holds, and the form
// that lifts it.
func (p pages) stopOne(w http.ResponseWriter, r *http.Request) error {
	who, _ := authn.FromContext(r.Context())
	s, err := p.findStop(r, who)
	if err != nil {
		return err
	}
	return p.showStop(w, r, who, s, http.StatusOK, "")
}

func (p pages) showStop(w http.ResponseWriter, r *http.Request, who authn.Principal, s tools.Stop, status int, wrong string) error {
	data := stopPage{Frame: door.FrameOf(r, "Stop of "+stopped(s.Scope, s.Name)), Stop: stopViewOf(s, who), Problem: wrong}
	found, _, err := p.service.Search(r.Context(), tools.Filter{Namespace: who.Namespace, State: tools.EffectHeld, HeldBy: s.ID, Limit: pageHeld})
	if err != nil {
		return err
	}
	marks, err := p.service.Ledger().Marks(r.Context(), found)
	if err != nil {
		return err
	}
	for _, e := range found {
		data.Held = append(data.Held, viewOf(e, marks[e.ID], data.At))
	}
	data.More = max(s.Held-int64(len(found)), 0)
	standing, err := p.service.Stops(r.Context(), tools.StopFilter{Namespace: who.Namespace, Standing: true, Limit: pageStanding})
	if err != nil {
		return err
	}
	for _, other := range standing {
		if other.ID != s.ID {
			data.Follows = append(data.Follows, stopped(other.Scope, other.Name)+", stopped by "+other.By)
		}
	}
	return web.Write(w, status, "lift", data)
}

// liftForm answers POST /ui/stops/{id}: the page that asks is the stop's own.
func (p pages) liftForm(w http.ResponseWriter, r *http.Request) error {
	who, _ := authn.FromContext(r.Context())
	typed, err := door.Form(r)
	if err != nil {
		return err
	}
	s, err := p.findStop(r, who)
	if err != nil {
		return err
	}
	if err := mayStop(who, s.Scope); err != nil {
		return p.showStop(w, r, who, s, http.StatusForbidden, sentence(door.From(err).Detail)+" Nothing was lifted.")
	}
	if typed.Get("sure") != "yes" {
		return p.showStop(w, r, who, s, http.StatusUnprocessableEntity, "Nothing was lifted; use the button of this page.")
	}
	if !s.EndedAt.IsZero() {
		return p.showStop(w, r, who, s, http.StatusConflict, fmt.Sprintf("%s lifted it already, at %s UTC.", s.EndedBy, s.EndedAt.Format(time.DateTime)))
	}
	note := strings.TrimSpace(typed.Get("note"))
	if _, err = p.service.StartWrites(r.Context(), who.Namespace, s.ID, who.Name, note); err != nil {
		if errors.Is(err, tools.ErrInvalid) {
			return p.showStop(w, r, who, s, http.StatusUnprocessableEntity, fmt.Sprintf("The note may have %d bytes. Nothing was lifted.", tools.MaxStopNote))
		}
		return problem("", err)
	}
	http.Redirect(w, r, stopsPath+"?done=lifted", http.StatusSeeOther)
	return nil
}
