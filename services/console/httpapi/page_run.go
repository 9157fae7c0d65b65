package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/web"
)

// pageJournal is how many rows of the journal a page shows.
const pageJournal = 100

func (a *api) runPages() {
	a.door.Raw("GET /ui/runs/{id}", authn.Viewer, page(a.runPage))
	a.door.Raw("POST /ui/runs/{id}/cancel", authn.Operator, page(a.cancelForm))
}

type runPage struct {
	frame
	Run                    console.Run
	Why                    console.Reason
	Input, Output, Problem string
	Cost                   string
	Budgets                []budgetRow
	Plan                   []events.PlanItem
	Facts                  []factRow
	Artifacts              []artifactRow
	MoreArtifacts          bool
	Journal                []journalRow
	Edits                  []editRow
	Moves                  []string // to other versions
	Earlier                int64    // seq before which there is more; 0 for nothing
	MayCancel, MayDelete   bool
}

type journalRow struct {
	Seq                       int64
	At                        time.Time
	Kind, Cause, Worker, Data string
}

func (a *api) runPage(w http.ResponseWriter, r *http.Request) error {
	id, err := runIn(r)
	if err != nil {
		return err
	}
	f := frameOf(r, "", "run")
	situation, err := a.console.Situation(r.Context(), f.Namespace, id)
	if err != nil {
		return problem(err, "run %s", id)
	}
	run := situation.Run
	f.Title = run.Name
	if r.URL.Query().Get("done") == "cancel" {
		f.Notice = "The run was asked to stop."
	}
	before := run.Seq + 1
	if n, err := strconv.ParseInt(r.URL.Query().Get("before"), 10, 64); err == nil && n > 1 {
		before = n
	}
	after := max(before-1-pageJournal, 0)
	facts, err := a.console.Shown(r.Context(), f.Namespace, id, after, int(before-1-after))
	if err != nil {
		return err
	}
	p, _ := authn.FromContext(r.Context())
	data := runPage{
		frame: f, Run: run, Why: console.Why(situation), Input: pretty(run.Input), Output: pretty(run.Output), Problem: pretty(run.Error),
		MayCancel: p.Role.Allows(authn.Operator) && !events.Ended(run.Status) && run.Status != events.StatusCancelling,
		MayDelete: mayDelete(p.Role, run),
	}
	if whole, err := a.console.GetRun(r.Context(), f.Namespace, id); err == nil {
		data.known(whole)
		data.Moves, data.Edits = moveSentences(whole.Moves), editRows(whole.Edits)
	} else { // a damaged row; the journal below says more
		data.Notice = "What the run has written down cannot be read."
	}
	if after > 0 {
		data.Earlier = after + 1
	}
	for _, e := range facts {
		said := pretty(e.Data)
		if e.Elided > 0 {
			said = strings.ToValidUTF8(string(e.Data), "") + fmt.Sprintf("\n… %d bytes in all: holdfast runs get %s --journal --json", e.Elided, e.RunID)
		}
		data.Journal = append(data.Journal, journalRow{e.Seq, e.At, e.Kind, e.Cause, e.Worker, said})
	}
	slices.Reverse(data.Journal)
	return web.Write(w, http.StatusOK, "run", data)
}

// cancelForm is the page's button. The door has refused what other sites send.
func (a *api) cancelForm(w http.ResponseWriter, r *http.Request) error {
	id, err := runIn(r)
	if err != nil {
		return err
	}
	p, _ := authn.FromContext(r.Context())
	_, _, err = a.console.Command(r.Context(), p.Namespace, p.Name, "", id, console.Order{Kind: events.RunCancel, Reason: "from the console"})
	if err != nil && !errors.Is(err, console.ErrEnded) {
		return problem(err, "run %s", id)
	}
	http.Redirect(w, r, fmt.Sprintf("/ui/runs/%s?done=cancel", id), http.StatusSeeOther)
	return nil
}
