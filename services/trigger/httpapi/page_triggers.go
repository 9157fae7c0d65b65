package httpapi

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/trigger"
	"github.com/holdfast-run/holdfast/web"
)

const (
	triggersPath   = "/ui/triggers"
	deliveriesPath = triggersPath + "/deliveries"
	schedulesPath  = triggersPath + "/schedules"
)

// Bounds of the triggers' pages.
const (
	pageSchedules  = 50
	pageNextFires  = 12
	pageDeliveries = 50
	pageNewest     = 10
	pageFires      = 30
)

// registerTriggerPages serves what starts runs: schedules, requests at webhooks
// and what became of each. The pages work without script.
func (a *api) registerTriggerPages(d *door.Door) {
	page(d, "GET "+triggersPath, authn.Viewer, a.triggersPage)
	page(d, "GET "+deliveriesPath, authn.Viewer, a.deliveriesPage)
	page(d, "GET "+deliveriesPath+"/{id}", authn.Viewer, a.deliveryPage)
	page(d, "POST "+deliveriesPath+"/{id}", authn.Operator, a.replayForm)
	page(d, "POST "+deliveriesPath, authn.Operator, a.replayManyForm)
	page(d, "GET "+schedulesPath+"/{name}", authn.Viewer, a.schedulePage)
	page(d, "POST "+schedulesPath+"/{name}", authn.Operator, a.scheduleForm)
}

// page adds a page whose Refusals have their status.
func page(d *door.Door, pattern string, need authn.Role, h func(http.ResponseWriter, *http.Request) error) {
	d.Page(pattern, need, func(w http.ResponseWriter, r *http.Request) error {
		if err := h(w, r); err != nil {
			return problem(err)
		}
		return nil
	})
}

type triggersPage struct {
	web.Frame
	Schedules  []scheduleView
	Next       string
	First      bool
	Fires      []fireView
	Deliveries []deliveryView
	Operator   bool
}

// scheduleView is a schedule in words.
type scheduleView struct {
	Name, When, Zone, Starts, Kind string
	State                          string // active, paused, broken
	Why                            string // it is paused or broken
	Overlap                        string
	Next                           *fireView
	Fired, Skipped, Missed         int64
	Last                           *pastFire
}

// fireView is one time at which a schedule fires, on its clock and in UTC.
type fireView struct {
	Schedule, Local, UTC, Note string
	At                         time.Time
}

// triggersPage answers GET /ui/triggers.
func (a *api) triggersPage(w http.ResponseWriter, r *http.Request) error {
	who, _ := authn.FromContext(r.Context())
	data := triggersPage{Frame: door.FrameOf(r, "Triggers"), Operator: who.Role.Allows(authn.Operator)}
	var after nameCursor
	more, err := door.DecodeCursor(r.URL.Query().Get("cursor"), &after)
	if err != nil {
		return err
	}
	data.First = !more
	found, err := a.svc.Schedules(r.Context(), who.Namespace, after.Name, pageSchedules+1)
	if err != nil {
		return err
	}
	cut := door.NewPage(found, pageSchedules, func(v trigger.ScheduleView) any { return nameCursor{v.Name} })
	if cut.NextCursor != "" {
		data.Next = triggersPath + "?" + url.Values{"cursor": {cut.NextCursor}}.Encode()
	}
	for _, v := range cut.Items {
		data.Schedules = append(data.Schedules, scheduleViewOf(v))
		if v.Pause == nil && !v.Paused && v.Broken == nil {
			data.Fires = append(data.Fires, fireViews(v.Name, v.Next)...)
		}
	}
	slices.SortFunc(data.Fires, func(x, y fireView) int { return cmp.Or(x.At.Compare(y.At), cmp.Compare(x.Schedule, y.Schedule)) })
	data.Fires = data.Fires[:min(len(data.Fires), pageNextFires)]
	entries, err := a.svc.Entries(r.Context(), who.Namespace, trigger.EntryFilter{}, "", pageNewest)
	if err != nil {
		return err
	}
	data.Deliveries = deliveryViews(entries)
	return web.Write(w, http.StatusOK, "triggers", data)
}

func scheduleViewOf(v trigger.ScheduleView) scheduleView {
	out := scheduleView{Name: v.Name, When: v.Cron, Zone: v.TimeZone, Starts: v.Target, Kind: v.Kind, State: "active",
		Overlap: cmp.Or(v.Overlap.Policy, spec.OverlapSkip), Fired: v.Fired, Skipped: v.Skipped, Missed: v.Missed}
	if v.Every > 0 {
		out.When = "every " + spec.Duration(v.Every).String()
	}
	if v.Kind != events.KindFlow {
		out.Kind = events.KindAgent
	}
	switch {
	case v.Broken != nil:
		out.State, out.Why = "broken", "Never fires: "+v.Broken.Error()
	case v.Pause != nil:
		out.State, out.Why = "paused", fmt.Sprintf("Paused by %s since %s UTC", v.Pause.By, v.Pause.At.UTC().Format("2006-01-02 15:04"))
		if v.Pause.Note != "" {
			out.Why += ": " + v.Pause.Note
		}
	case v.Paused:
		out.State, out.Why = "paused", "Paused by its definition"
	}
	if fires := fireViews(v.Name, v.Next); len(fires) > 0 && out.State == "active" {
		out.Next = &fires[0]
	}
	if v.Last != nil {
		last := pastFireBody(*v.Last)
		out.Last = &last
	}
	return out
}

// fireViews shows fires, with a word where the clock is changed.
func fireViews(schedule string, fires []trigger.Fire) []fireView {
	out := make([]fireView, 0, len(fires))
	for i, f := range fires {
		v := fireView{Schedule: schedule, At: f.At.UTC(), Local: f.At.Format("Mon 2 Jan 2006, 15:04 MST"), UTC: f.At.UTC().Format("Mon 2 Jan, 15:04")}
		switch _, offset := f.At.Zone(); {
		case f.Shifted:
			v.Note = "Clocks go forward: " + f.Nominal + " does not exist, so it fires once, later"
		case f.Fold == 1:
			v.Note = "Clocks go back: the second time that it is " + f.Nominal
		case i > 0:
			if _, before := fires[i-1].At.Zone(); before != offset {
				v.Note = "The clock was changed: UTC moves by " + (time.Duration(max(offset-before, before-offset)) * time.Second).String()
			}
		}
		out = append(out, v)
	}
	return out
}
