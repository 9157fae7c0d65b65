package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/web"
)

// pageJournal is how many rows of the journal a page shows.
const pageJournal = 100

func (a *api) runPages() {
	a.door.Raw("GET /ui/runs/{id}", authn.Viewer, page(a.runPage))
	a.orderPages()
	a.forkPages()
}

type runPage struct {
	frame
	Run                    console.Run
	Head                   runHead
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
	Origin                 *console.Link
	Forks                  []console.Link
	Earlier                int64 // seq before which there is more; 0 for nothing
	Delete                 bool
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
	f := frameOf(r, "", "runs")
	situation, err := a.console.Situation(r.Context(), f.Namespace, id)
	if err != nil {
		return problem(err, "run %s", id)
	}
	run := situation.Run
	f.Title = run.Name
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
	why := console.Why(situation)
	newer, err := a.newerVersion(r.Context(), run)
	if err != nil {
		return err
	}
	data := runPage{
		frame: f, Run: run, Head: a.headOf(p, situation, why, r.URL.Query().Get("done"), uuid.NewString(), newer), Why: why, Input: pretty(run.Input), Output: pretty(run.Output), Problem: pretty(run.Error),
		Delete: mayDelete(p.Role, run),
	}
	if whole, err := a.console.GetRun(r.Context(), f.Namespace, id); err == nil {
		data.known(whole)
		data.Moves, data.Edits, data.Origin, data.Forks = moveSentences(whole.Moves), editRows(whole.Edits), whole.Origin, whole.Forks
	} else { // a damaged row; the journal below says more
		data.Head.Notice = "What the run has written down cannot be read."
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
	return web.Write(w, http.StatusOK, "run", &data)
}

// newerVersion is what the run's agent means now, when the run executes another version.
func (a *api) newerVersion(ctx context.Context, run console.Run) (events.Digest, error) {
	if run.Kind != events.KindAgent || events.Ended(run.Status) {
		return "", nil
	}
	now, err := a.console.CurrentVersions(ctx, run.Namespace, events.KindAgent, []string{run.Name})
	if err != nil || len(now) == 0 || now[0].Digest == run.Digest {
		return "", err
	}
	return now[0].Digest, nil
}

// ID and Buttons are what the buttons of the page need.
func (p *runPage) ID() events.RunID     { return p.Run.ID }
func (p *runPage) Buttons() []runButton { return p.Head.Buttons }
