package httpapi

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/web"
)

// pageRuns is how many runs a page lists.
const pageRuns = 50

var statuses = []string{
	events.StatusQueued, events.StatusRunning, events.StatusWaiting, events.StatusPaused, events.StatusAttention, events.StatusCancelling,
	events.StatusCompleted, events.StatusFailed, events.StatusCancelled, events.StatusExpired,
}

func (a *api) runsPages() {
	a.door.Raw("GET /{$}", authn.Viewer, page(a.runsPage))
}

type runsPage struct {
	frame
	Runs                       []console.Run
	Status, Agent, Flow, Label string
	Statuses                   []string
	Next                       string
	MayDelete                  map[events.RunID]bool
}

func (a *api) runsPage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	in := listRunsInput{PageInput: door.PageInput{Limit: pageRuns, Cursor: q.Get("cursor")},
		Agent: q.Get("agent"), Flow: q.Get("flow"), Status: q.Get("status")}
	if l := q.Get("label"); l != "" {
		in.Label = []string{l}
	}
	f := frameOf(r, "Runs", "runs")
	filter, err := in.filter(f.Namespace)
	if err != nil {
		return err
	}
	found, err := a.console.Runs(r.Context(), filter)
	if err != nil {
		return err
	}
	listed := door.NewPage(found, pageRuns, func(r console.Run) any { return runCursor{r.ID} })
	data := runsPage{frame: f, Runs: listed.Items, Status: in.Status, Agent: in.Agent, Flow: in.Flow, Label: q.Get("label"), Statuses: statuses, MayDelete: map[events.RunID]bool{}}
	p, _ := authn.FromContext(r.Context())
	for _, run := range listed.Items {
		if mayDelete(p.Role, run) {
			data.MayDelete[run.ID] = true
		}
	}
	if n, err := strconv.Atoi(q.Get("deleted")); err == nil && n > 0 {
		data.Notice = deletedNotice(n)
	}
	if listed.NextCursor != "" {
		next := url.Values{"cursor": {listed.NextCursor}}
		for _, k := range []string{"status", "agent", "flow", "label"} {
			if v := q.Get(k); v != "" {
				next.Set(k, v)
			}
		}
		data.Next = next.Encode()
	}
	return web.Write(w, http.StatusOK, "runs", data)
}
