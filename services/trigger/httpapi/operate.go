package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// registerScheduleActions hangs in what operators do with schedules.
func (a *api) registerScheduleActions(d *door.Door, tags []string) {
	op := func(id, method, path, summary, description string) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: method, Path: "/v1/schedules/{name}/" + path, Summary: summary, Description: description, Tags: tags,
		}
	}
	door.Register(d, op("next-fires", http.MethodGet, "next", "Preview a schedule's next fires",
		"In UTC and on the schedule's wall clock, with those marked that a clock change shifts; as if nobody had paused it."), authn.Viewer, a.nextFires)
	door.Register(d, op("schedule-history", http.MethodGet, "history", "List a schedule's fires and skips with their reasons, newest first", ""),
		authn.Viewer, a.scheduleHistory)
	now := op("trigger-schedule", http.MethodPost, "trigger", "Start a run of a schedule now, also of a paused one",
		"The overlap policy counts here too: 409 when it lets no run start, and the status buffered when the run waits for the end of another.")
	now.DefaultStatus = http.StatusAccepted
	door.Register(d, now, authn.Operator, a.triggerSchedule)
	door.Register(d, op("pause-schedule", http.MethodPost, "pause", "Stop a schedule from firing",
		"Runs in progress go on. The pause lasts until it is resumed, whatever is applied meanwhile."), authn.Operator, a.pauseSchedule)
	door.Register(d, op("resume-schedule", http.MethodPost, "resume", "Let a paused schedule fire again",
		"It goes on with its next fire after now. With backfill, the fires that passed meanwhile are made, once."), authn.Operator, a.resumeSchedule)
	door.Register(d, op("backfill-schedule", http.MethodPost, "backfill", "Make the fires of a range of time that have not run",
		"One after the other, unless the schedule or the request allows overlap. A fire that has run is left alone, but with force."), authn.Operator, a.backfillSchedule)
}

type nextInput struct {
	Name  string    `path:"name" maxLength:"62"`
	Count int       `query:"count" default:"10" minimum:"1" maximum:"1000"`
	After time.Time `query:"after" doc:"later than this; now when it is absent or past"`
}

type nextOutput struct {
	Body struct {
		Items []fire `json:"items"`
	}
}

func (a *api) nextFires(ctx context.Context, in *nextInput) (*nextOutput, error) {
	p, err := principal(ctx)
	if err != nil {
		return nil, err
	}
	fires, err := a.svc.NextFires(ctx, p.Namespace, in.Name, in.After, in.Count)
	if err != nil {
		return nil, problem(err)
	}
	out := &nextOutput{}
	out.Body.Items = fireBodies(fires)
	return out, nil
}

type historyInput struct {
	Name string `path:"name" maxLength:"62"`
	door.PageInput
}

type historyOutput struct{ Body door.Page[historyFire] }

type historyFire struct {
	pastFire
	id int64
}

type fireCursor struct {
	ID int64 `json:"i"`
}

func (a *api) scheduleHistory(ctx context.Context, in *historyInput) (*historyOutput, error) {
	p, err := principal(ctx)
	if err != nil {
		return nil, err
	}
	var before fireCursor
	if _, err := door.DecodeCursor(in.Cursor, &before); err != nil {
		return nil, err
	}
	list, err := a.svc.ScheduleHistory(ctx, p.Namespace, in.Name, before.ID, in.Limit+1)
	if err != nil {
		return nil, problem(err)
	}
	items := make([]historyFire, 0, len(list))
	for _, f := range list {
		items = append(items, historyFire{pastFireBody(f), f.ID})
	}
	return &historyOutput{door.NewPage(items, in.Limit, func(f historyFire) any { return fireCursor{f.id} })}, nil
}

type triggerInput struct {
	Name    string `path:"name" maxLength:"62"`
	Key     string `header:"Idempotency-Key" doc:"names this request: a repeat starts nothing new"`
	Overlap string `query:"overlap" enum:"skip,bufferOne,bufferAll,cancelOther,allow" doc:"instead of the schedule's policy"`
}

func (a *api) triggerSchedule(ctx context.Context, in *triggerInput) (*startOutput, error) {
	p, err := principal(ctx)
	if err != nil {
		return nil, err
	}
	key, err := idempotencyKey(in.Key)
	if err != nil {
		return nil, problem(err)
	}
	answer, err := a.svc.TriggerNow(ctx, trigger.NowRequest{
		Namespace: p.Namespace, Name: in.Name, Principal: p.Name, Key: key, Overlap: in.Overlap,
	})
	if err != nil {
		return nil, problem(err)
	}
	out := startAnswer(answer.Accepted)
	if answer.Buffered {
		out.Body.Status = trigger.FireBuffered
	}
	return out, nil
}

type pauseInput struct {
	Name string `path:"name" maxLength:"62"`
	Body struct {
		Note string `json:"note,omitempty" maxLength:"1000" doc:"why, for whoever finds it paused"`
	}
}

type pauseOutput struct {
	Body struct {
		PausedAt time.Time `json:"paused_at"`
		PausedBy string    `json:"paused_by"`
		Note     string    `json:"note,omitempty"`
		OpenRuns []string  `json:"open_runs" doc:"runs of the schedule that go on"`
	}
}

func (a *api) pauseSchedule(ctx context.Context, in *pauseInput) (*pauseOutput, error) {
	p, err := principal(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := a.svc.PauseSchedule(ctx, trigger.PauseRequest{Namespace: p.Namespace, Name: in.Name, Principal: p.Name, Note: in.Body.Note})
	if err != nil {
		return nil, problem(err)
	}
	out := &pauseOutput{}
	out.Body.PausedAt, out.Body.PausedBy, out.Body.Note = answer.Pause.At.UTC(), answer.Pause.By, answer.Pause.Note
	out.Body.OpenRuns = []string{}
	for _, run := range answer.Open {
		out.Body.OpenRuns = append(out.Body.OpenRuns, string(run))
	}
	return out, nil
}

type resumeInput struct {
	Name string `path:"name" maxLength:"62"`
	Body struct {
		Note     string `json:"note,omitempty" maxLength:"1000"`
		Backfill bool   `json:"backfill,omitempty" doc:"make the fires that passed meanwhile"`
		DryRun   bool   `json:"dry_run,omitempty" doc:"only say what would happen"`
	}
}

type resumeOutput struct {
	Body struct {
		Passed   int    `json:"passed" doc:"fires that passed during the pause"`
		More     bool   `json:"more,omitempty" doc:"there are more than passed says"`
		Backfill *tally `json:"backfill,omitempty"`
		Next     *fire  `json:"next,omitempty"`
	}
}

type tally struct {
	Fires    int `json:"fires" doc:"in the range"`
	Known    int `json:"known" doc:"had run, or wait, and are left alone"`
	Started  int `json:"started"`
	Buffered int `json:"buffered" doc:"start one after the other"`
	Skipped  int `json:"skipped"`
	Rejected int `json:"rejected"`
}

func (a *api) resumeSchedule(ctx context.Context, in *resumeInput) (*resumeOutput, error) {
	p, err := principal(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := a.svc.ResumeSchedule(ctx, trigger.ResumeRequest{
		PauseRequest: trigger.PauseRequest{Namespace: p.Namespace, Name: in.Name, Principal: p.Name, Note: in.Body.Note},
		Backfill:     in.Body.Backfill, DryRun: in.Body.DryRun,
	})
	if err != nil {
		return nil, problem(err)
	}
	out := &resumeOutput{}
	out.Body.Passed, out.Body.More = answer.Passed, answer.More
	if in.Body.Backfill {
		t := tally(answer.Backfill)
		out.Body.Backfill = &t
	}
	if answer.Next != nil {
		out.Body.Next = &fireBodies([]trigger.Fire{*answer.Next})[0]
	}
	return out, nil
}

type backfillInput struct {
	Name string `path:"name" maxLength:"62"`
	Key  string `header:"Idempotency-Key" doc:"with force: a repeat of this request makes nothing again"`
	Body struct {
		From    time.Time `json:"from"`
		To      time.Time `json:"to" doc:"not in the future; both ends are in the range"`
		Overlap string    `json:"overlap,omitempty" enum:"skip,bufferOne,bufferAll,cancelOther,allow"`
		Force   bool      `json:"force,omitempty" doc:"make fires again that have run; needs an Idempotency-Key"`
		DryRun  bool      `json:"dry_run,omitempty" doc:"only count"`
	}
}

type backfillOutput struct{ Body tally }

func (a *api) backfillSchedule(ctx context.Context, in *backfillInput) (*backfillOutput, error) {
	p, err := principal(ctx)
	if err != nil {
		return nil, err
	}
	key, err := idempotencyKey(in.Key)
	if err != nil {
		return nil, problem(err)
	}
	r := trigger.BackfillRequest{
		Namespace: p.Namespace, Name: in.Name, Principal: p.Name, From: in.Body.From, To: in.Body.To,
		Overlap: in.Body.Overlap, DryRun: in.Body.DryRun,
	}
	if in.Body.Force {
		if key == "" {
			return nil, problem(trigger.Refuse(trigger.CodeInvalidKey, "force needs an Idempotency-Key, so that a repeat of the request makes nothing a third time"))
		}
		r.Force = p.Name + "/" + key
	}
	answer, err := a.svc.Backfill(ctx, r)
	if err != nil {
		return nil, problem(err)
	}
	return &backfillOutput{tally(answer)}, nil
}
