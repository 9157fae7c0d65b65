package httpapi

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/web"
)

func (a *api) runPages() {
	a.door.Page("GET /ui/runs/{id}", authn.Viewer, a.runPage)
	a.door.Page("GET /ui/runs/{id}/rows/{seq}", authn.Viewer, a.rowPage)
	a.orderPages()
	a.forkPages()
}

type runPage struct {
	frame
	Run                    console.Run
	Head                   runHead
	Why                    console.Reason
	Input, Output, Problem string
	Gauges                 []gaugeView
	Chat                   chatView
	Parts                  partsView
	Forkable               bool
	Plan                   []events.PlanItem
	Facts                  []factRow
	Artifacts              []artifactRow
	MoreArtifacts          bool
	journalView
	Timeline timelineView
	Edits    []editRow
	Moves    []string // to other versions
	Origin   *console.Link
	Forks    []console.Link
	Delete   bool
}

func (a *api) runPage(w http.ResponseWriter, r *http.Request) error {
	id, err := runIn(r)
	if err != nil {
		return err
	}
	f := door.FrameOf(r, "")
	situation, err := a.console.Situation(r.Context(), f.Namespace, id)
	if err != nil {
		return problem(err, "run %s", id)
	}
	run := situation.Run
	f.Title = run.Name
	at, err := rowIn(r, "at")
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
	if err := a.journalOf(r.Context(), &data, at); err != nil {
		return err
	}
	data.Parts = a.partsOf(r.Context(), situation)
	data.Forkable = p.Role.Allows(authn.Operator) && offers{Run: run}.forkable()
	if data.Timeline, err = a.timeline(r.Context(), run, at, situation.Now, [2]int64{data.First, data.Last}); err != nil {
		data.Timeline.Empty = "The rows cannot be drawn. The journal below has them."
		a.console.Log().WarnContext(r.Context(), "timeline not readable", telemetry.KeyRunID, id, "err", err)
	}
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

// AnyParts reports whether the panel has anything to show.
func (p *runPage) AnyParts() bool {
	return len(p.Gauges)+len(p.Plan)+len(p.Facts)+len(p.Artifacts)+len(p.Parts.Asked)+len(p.Parts.Effects) > 0 || p.Parts.Problem != ""
}
