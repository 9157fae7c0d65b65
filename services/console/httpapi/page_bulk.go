package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/web"
)

// A bulkOrder is what can be ordered about many runs at once.
type bulkOrder struct {
	name, verb, doing string // "cancel", "Cancel", "asked to stop"
	says              string
	final             bool
	statuses          []string // of "all that match" without a status; nil: those that are open
	can               func(o offers) bool
}

// bulkOrders are all of them, in the order of the buttons.
var bulkOrders = []bulkOrder{
	{"pause", "Pause", "asked to stand still before its next step", "A paused run makes no further model call until somebody resumes it. Calls that have begun are finished.", false, nil, offers.pausable},
	{"resume", "Resume", "asked to go on", "A run that was paused goes on. One that is parked tries its step again.", false, []string{events.StatusPaused, events.StatusAttention}, offers.resumable},
	{"retry", "Retry", "goes on as a new run", "Each goes on as a new run from its last good row. What the old one changed is not done again.", false, []string{events.StatusFailed, events.StatusExpired}, offers.retryable},
	{"cancel", "Cancel", "asked to stop", "Calls that have not begun are taken back, and what people are asked is withdrawn. A call that has begun is awaited, so that its outcome is known. What a run has changed stays. Runs that it waits for end with it.", true, nil, offers.cancellable},
}

func (a *api) bulkPages() {
	a.door.Page("POST /ui/runs/order", authn.Operator, a.bulkForm)
}

// bulkPage asks whether many runs are to be ordered the same, or says what became of it.
type bulkPage struct {
	frame
	Order, Verb, Says string
	Final, Done       bool
	Go, Stay          []bulkRow
	Sent              int
	Key, Reason       string
	Problem           string
	Back              string
}

type bulkRow struct {
	ID           events.RunID
	Name, Status string
	At           time.Time
	Text         string       // why it stays, or what became of it
	Retry        events.RunID // the run that goes on
	OK           bool
}

// bulkForm is the bar below the list of runs. What it is sent first only asks; the page
// that it answers with names each run and has the button that orders, for exactly those.
// The door has refused what other sites send.
func (a *api) bulkForm(w http.ResponseWriter, r *http.Request) error {
	if _, err := door.Form(r); err != nil {
		return err
	}
	if r.PostFormValue("do") == console.OrderDelete {
		return a.deleteForm(w, r)
	}
	at := slices.IndexFunc(bulkOrders, func(o bulkOrder) bool { return o.name == r.PostFormValue("do") })
	if at < 0 {
		return door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, "say what is to be done: pause, resume, retry, cancel or delete")
	}
	order := bulkOrders[at]
	p, _ := authn.FromContext(r.Context())
	typed := typedFilter(r.PostForm)
	data := bulkPage{frame: door.FrameOf(r, order.verb+" runs"), Order: order.name, Verb: order.verb, Says: order.says, Final: order.final,
		Key: r.PostFormValue("key"), Reason: r.PostFormValue("reason"), Back: listPath(typed.values())}
	runs, wrong, err := a.bulkRuns(r, p.Namespace, typed, order)
	if err != nil {
		return err
	}
	var going []console.Run
	for _, run := range runs {
		row := bulkRow{ID: run.ID, Name: run.Name, Status: run.Status, At: run.AcceptedAt}
		if o := (offers{Run: run}); order.can(o) {
			going, data.Go = append(going, run), append(data.Go, row)
		} else {
			row.Text = order.whyNot(run)
			data.Stay = append(data.Stay, row)
		}
	}
	give := console.Bulk{Order: console.Order{Kind: order.name, Reason: data.Reason}, Key: data.Key}
	if err := give.Check(); err != nil && wrong == "" {
		wrong = err.Error()
	}
	sure := r.PostFormValue("sure") == "yes"
	if len(data.Key) > 100 {
		return door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, "the key of this form is not one of ours; begin with the list of runs")
	}
	if !sure || data.Key == "" || wrong != "" {
		data.Problem = wrong
		if data.Key == "" {
			id, err := uuid.NewV7()
			if err != nil {
				return err
			}
			data.Key = "page-" + id.String()
		}
		status := http.StatusOK
		if wrong != "" {
			status = http.StatusUnprocessableEntity
		}
		return web.Write(w, status, "bulk", data)
	}
	given, err := a.console.OrderEach(r.Context(), p.Namespace, p.Name, give, going)
	if errors.Is(err, console.ErrKeyReused) {
		return door.Error(http.StatusConflict, CodeKeyReused, "this form was sent before with another order; begin with the list of runs")
	}
	if err != nil {
		return err
	}
	data.Done, data.Go = true, nil
	for _, g := range given {
		row := bulkRow{ID: g.ID, Name: g.Name, Status: g.Status, At: g.AcceptedAt, Retry: g.Retry, OK: g.Command != "", Text: order.doing}
		switch {
		case g.Refused != nil:
			row.Text = door.From(problem(g.Refused, "run %s", g.ID)).Detail
		case !row.OK:
			row.Text = "It has ended meanwhile."
		default:
			data.Sent++
		}
		data.Go = append(data.Go, row)
	}
	return web.Write(w, http.StatusOK, "bulk", data)
}

// bulkRuns are the runs that were ticked, or all that match what was typed.
func (a *api) bulkRuns(r *http.Request, namespace string, typed FindRuns, order bulkOrder) (runs []console.Run, wrong string, err error) {
	if r.PostFormValue("all") == "yes" {
		f, err := typed.filter(namespace, time.Now())
		if err != nil {
			return nil, "", err
		}
		switch {
		case len(f.Statuses) > 0:
		case order.statuses != nil:
			f.Statuses = order.statuses
		default:
			f.Open = true
		}
		runs, more, err := a.console.FindAll(r.Context(), f, typed.Text, console.DefaultBulkMax)
		switch {
		case err != nil:
			return nil, "", err
		case more:
			return nil, fmt.Sprintf("More than %s runs match, so nothing is ordered. Narrow the list, or use holdfast runs %s --where … --max %d", web.Thousands(console.DefaultBulkMax), order.name, console.BulkMax), nil
		case len(runs) == 0:
			return nil, "No run that could be ordered so matches what the list is narrowed to.", nil
		}
		return runs, "", nil
	}
	ids := slices.Compact(slices.Sorted(slices.Values(r.PostForm["id"])))
	if len(ids) == 0 {
		return nil, "No run is chosen. Tick those that you mean, or take all that match.", nil
	}
	if len(ids) > console.DefaultBulkMax {
		return nil, fmt.Sprintf("%s runs are chosen; choose %s at most.", web.Thousands(len(ids)), web.Thousands(console.DefaultBulkMax)), nil
	}
	f := console.RunFilter{Namespace: namespace, Limit: len(ids)}
	for _, id := range ids {
		if !events.RunID(id).Valid() {
			return nil, "", door.NotFound("%q is not the id of a run", id)
		}
		f.IDs = append(f.IDs, events.RunID(id))
	}
	runs, err = a.console.Runs(r.Context(), f)
	if err == nil && len(runs) == 0 {
		wrong = "None of the chosen runs is here any more."
	}
	return runs, wrong, err
}

// whyNot says why a run is left out, by the state that was just read.
func (o bulkOrder) whyNot(r console.Run) string {
	switch {
	case r.Kind == console.KindProgram:
		return "Its own program drives it; no runner has it."
	case o.name == console.OrderRetry:
		return "It has not failed or expired, so there is nothing to try again."
	case events.Ended(r.Status):
		return "It has ended, and an end is final."
	case r.Status == events.StatusCancelling:
		return "It is being cancelled already."
	case o.name == events.RunResume:
		return "It is neither paused nor parked, so there is nothing to resume."
	}
	return "It stands still already."
}
