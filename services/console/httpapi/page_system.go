package httpapi

import (
	"net/http"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/web"
)

const pageNotices = 50

func (a *api) systemPages() {
	a.door.Page("GET /ui/system", authn.Viewer, a.systemPage)
}

type workerRow struct {
	console.Worker
	Beat, Skew string
	Since      time.Time
}

type systemPage struct {
	frame
	Findings []console.Finding
	Workers  []workerRow
	Lags     []console.Lag
	NoLag    string
	Parked   []console.Tally
	Rejected []rejectedRow
	Notices  []console.LostNotice
	Resumed  []durabilityRow
	MayOrder bool
}

type rejectedRow struct {
	console.Rejection
	Next string
}

// afterRejection says what can be done about what a service rejected.
var afterRejection = map[string]string{
	"trigger":   "The sender was told, or sent a message that starts nothing. Mend the webhook or what is sent, and send it again.",
	"runner":    "No run waits for it. A start, signal or order that was meant has to be given again.",
	"tools":     "The run that asked for the call is told by its own checks, which ask again.",
	"approvals": "The run that asked is told by its own checks, which ask again.",
}

// systemPage shows who works, what is behind, and what the doctor finds.
func (a *api) systemPage(w http.ResponseWriter, r *http.Request) error {
	p, _ := authn.FromContext(r.Context())
	data := systemPage{frame: door.FrameOf(r, "System"), MayOrder: p.Role.Allows(authn.Operator)}
	if r.URL.Query().Get("resent") == "yes" {
		data.Notice = "The notice is sent again. It is listed below once more if it fails."
	}
	system, err := a.console.System(r.Context(), p.Namespace)
	if err != nil {
		return err
	}
	checkup, err := a.console.Checkup(r.Context(), p.Namespace)
	if err != nil {
		return err
	}
	data.Findings = console.Examine(system, checkup)
	for _, worker := range system.Workers {
		data.Workers = append(data.Workers, workerRow{Worker: worker, Beat: worker.Age.Round(100 * time.Millisecond).String(), Skew: worker.Skew.Round(time.Millisecond).String(), Since: worker.StartedAt})
	}
	data.Lags, data.NoLag, data.Parked = system.Lags, system.NoLag, checkup.Parked
	rejected, err := a.console.Rejections(r.Context(), pageNotices)
	if err != nil {
		return err
	}
	for _, x := range rejected {
		data.Rejected = append(data.Rejected, rejectedRow{x, afterRejection[x.Service]})
	}
	if data.Resumed, err = a.durabilities(r.Context(), p.Namespace); err != nil {
		return err
	}
	if data.Notices, err = a.console.LostNotices(r.Context(), p.Namespace, pageNotices); err != nil {
		return err
	}
	return web.Write(w, http.StatusOK, "system", data)
}
