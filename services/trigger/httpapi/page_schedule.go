package httpapi

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/services/trigger"
	"github.com/holdfast-run/holdfast/web"
)

type schedulePage struct {
	web.Frame
	S            scheduleView
	Fires        []fireView
	Past         []pastFire
	Older        string
	May          bool
	PausedByHand bool
	Ask          string // now or resume: what is asked before it counts
	Passed       int
	MorePassed   bool
	Key, Problem string
	Note         string
}

// schedulePage answers GET /ui/triggers/schedules/{name}.
func (a *api) schedulePage(w http.ResponseWriter, r *http.Request) error {
	who, _ := authn.FromContext(r.Context())
	return a.showSchedule(w, r, who, http.StatusOK, schedulePage{})
}

func (a *api) showSchedule(w http.ResponseWriter, r *http.Request, who authn.Principal, status int, data schedulePage) error {
	name := r.PathValue("name")
	v, err := a.svc.Schedule(r.Context(), who.Namespace, name)
	if err != nil {
		return err
	}
	data.Frame, data.S, data.PausedByHand = door.FrameOf(r, "Schedule "+name), scheduleViewOf(v), v.Pause != nil
	data.May = who.Role.Allows(authn.Operator)
	if v.Broken == nil {
		fires, err := a.svc.NextFires(r.Context(), who.Namespace, name, a.now(), pageNextFires)
		if err != nil {
			return err
		}
		data.Fires = fireViews(name, fires)
	}
	var before fireCursor
	if _, err := door.DecodeCursor(r.URL.Query().Get("cursor"), &before); err != nil {
		return err
	}
	past, err := a.svc.ScheduleHistory(r.Context(), who.Namespace, name, before.ID, pageFires+1)
	if err != nil {
		return err
	}
	cut := door.NewPage(past, pageFires, func(f trigger.PastFire) any { return fireCursor{f.ID} })
	for _, f := range cut.Items {
		data.Past = append(data.Past, pastFireBody(f))
	}
	if cut.NextCursor != "" {
		data.Older = schedulesPath + "/" + url.PathEscape(name) + "?" + url.Values{"cursor": {cut.NextCursor}}.Encode()
	}
	if data.Key == "" {
		data.Key = rand.Text()
	}
	if data.Notice == "" {
		data.Notice = map[string]string{"paused": "Paused. Runs in progress go on.", "resumed": "It fires again."}[r.URL.Query().Get("done")]
	}
	return web.Write(w, status, "schedule", data)
}

// scheduleForm answers POST /ui/triggers/schedules/{name}: pause, which can be taken
// back, at once; a run now and going on ask first.
func (a *api) scheduleForm(w http.ResponseWriter, r *http.Request) error {
	who, _ := authn.FromContext(r.Context())
	typed, err := door.Form(r)
	if err != nil {
		return err
	}
	name, sure := r.PathValue("name"), typed.Get("sure") == "yes"
	here := schedulesPath + "/" + url.PathEscape(name)
	data := schedulePage{Note: strings.TrimSpace(typed.Get("note")), Key: typed.Get("key")}
	pause := trigger.PauseRequest{Namespace: who.Namespace, Name: name, Principal: who.Name, Note: data.Note}
	to := ""
	switch do := typed.Get("do"); {
	case do == "pause":
		_, err = a.svc.PauseSchedule(r.Context(), pause)
		to = here + "?done=paused"
	case do == "resume" && sure:
		_, err = a.svc.ResumeSchedule(r.Context(), trigger.ResumeRequest{PauseRequest: pause, Backfill: typed.Get("backfill") == "yes"})
		to = here + "?done=resumed"
	case do == "resume":
		var would trigger.ResumeAnswer
		if would, err = a.svc.ResumeSchedule(r.Context(), trigger.ResumeRequest{PauseRequest: pause, DryRun: true}); err == nil {
			data.Ask, data.Passed, data.MorePassed = do, would.Passed, would.More
		}
	case do == "now" && sure:
		var key string
		var now trigger.NowAnswer
		if key, err = idempotencyKey(data.Key); err == nil {
			if now, err = a.svc.TriggerNow(r.Context(), trigger.NowRequest{Namespace: who.Namespace, Name: name, Principal: who.Name, Key: key}); err == nil {
				to = "/ui/runs/" + string(now.Accepted.RunID)
			}
		}
	case do == "now":
		data.Ask = do
	default:
		err = trigger.Refuse(trigger.CodeOption, "choose what to do; nothing was done")
	}
	switch refused, ok := trigger.AsRefusal(err); {
	case ok && refused.Code != trigger.CodeUnknownSched:
		data.Problem = fmt.Sprintf("%s. Nothing was done.", strings.TrimSuffix(refused.Message, "."))
		return a.showSchedule(w, r, who, door.From(problem(err)).Status, data)
	case err != nil:
		return err
	case to != "":
		http.Redirect(w, r, to, http.StatusSeeOther)
		return nil
	}
	return a.showSchedule(w, r, who, http.StatusOK, data)
}
