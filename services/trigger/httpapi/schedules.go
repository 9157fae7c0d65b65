package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/trigger"
)

type scheduleInput struct {
	Name string `path:"name" maxLength:"62"`
}

type scheduleOutput struct{ Body schedule }

type schedulesOutput struct{ Body door.Page[schedule] }

type schedule struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Digest    string `json:"digest"`
	Cron      string `json:"cron"`
	TimeZone  string `json:"time_zone"`
	Agent     string `json:"agent,omitempty"`
	Flow      string `json:"flow,omitempty"`
	Paused    bool   `json:"paused"`
	Problem   string `json:"problem,omitempty" doc:"why this version never fires"`
	// Next is empty for a paused schedule.
	Next   []fire    `json:"next" doc:"the next fires"`
	Missed int64     `json:"missed" doc:"fires that were found too late to start a run"`
	Last   *pastFire `json:"last,omitempty"`
}

type fire struct {
	At      time.Time `json:"at" doc:"UTC"`
	Local   string    `json:"local" doc:"the same instant on the schedule's wall clock"`
	Nominal string    `json:"nominal" doc:"the wall time that the expression names"`
	Fold    int       `json:"fold,omitempty" doc:"1 on the second pass of a wall time that occurs twice"`
	Shifted bool      `json:"shifted,omitempty" doc:"the wall time is skipped that day, so it fires later"`
}

type pastFire struct {
	Nominal string    `json:"nominal"`
	Fold    int       `json:"fold,omitempty"`
	FiredAt time.Time `json:"fired_at"`
	RunID   string    `json:"run_id,omitempty" doc:"absent when the fire could start nothing"`
}

type triggerInput struct {
	Name string `path:"name" maxLength:"62"`
	Key  string `header:"Idempotency-Key" doc:"names this request: a repeat starts nothing new"`
}

func (a *api) registerSchedules(d *door.Door) {
	tags := []string{"schedules"}
	door.Register(d, huma.Operation{
		OperationID: "list-schedules", Method: http.MethodGet, Path: "/v1/schedules",
		Summary: "List schedules with their next fires", Tags: tags,
	}, authn.Viewer, a.listSchedules)
	door.Register(d, huma.Operation{
		OperationID: "get-schedule", Method: http.MethodGet, Path: "/v1/schedules/{name}",
		Summary: "Show a schedule with its next fires", Tags: tags,
	}, authn.Viewer, a.getSchedule)
	door.Register(d, huma.Operation{
		OperationID: "trigger-schedule", Method: http.MethodPost, Path: "/v1/schedules/{name}/trigger",
		Summary:       "Start a run of a schedule now, also of a paused one",
		DefaultStatus: http.StatusAccepted, Tags: tags,
	}, authn.Operator, a.triggerSchedule)
}

type nameCursor struct {
	Name string `json:"n"`
}

func (a *api) listSchedules(ctx context.Context, in *door.PageInput) (*schedulesOutput, error) {
	p, err := principal(ctx)
	if err != nil {
		return nil, err
	}
	var after nameCursor
	if _, err := door.DecodeCursor(in.Cursor, &after); err != nil {
		return nil, err
	}
	views, err := a.svc.Schedules(ctx, p.Namespace, after.Name, in.Limit+1)
	if err != nil {
		return nil, problem(err)
	}
	items := make([]schedule, 0, len(views))
	for _, v := range views {
		items = append(items, scheduleBody(v))
	}
	return &schedulesOutput{door.NewPage(items, in.Limit, func(s schedule) any { return nameCursor{s.Name} })}, nil
}

func (a *api) getSchedule(ctx context.Context, in *scheduleInput) (*scheduleOutput, error) {
	p, err := principal(ctx)
	if err != nil {
		return nil, err
	}
	v, err := a.svc.Schedule(ctx, p.Namespace, in.Name)
	if err != nil {
		return nil, problem(err)
	}
	return &scheduleOutput{scheduleBody(v)}, nil
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
	accepted, err := a.svc.TriggerNow(ctx, p.Namespace, in.Name, p.Name, key)
	if err != nil {
		return nil, problem(err)
	}
	return startAnswer(accepted), nil
}

func scheduleBody(v trigger.ScheduleView) schedule {
	s := schedule{
		Name: v.Name, Namespace: v.Namespace, Digest: string(v.Digest), Cron: v.Cron, TimeZone: v.TimeZone,
		Paused: v.Paused, Missed: v.Missed, Next: []fire{},
	}
	if v.Kind == events.KindFlow {
		s.Flow = v.Target
	} else {
		s.Agent = v.Target
	}
	if v.Broken != nil {
		s.Problem = v.Broken.Error()
	}
	for _, f := range v.Next {
		s.Next = append(s.Next, fire{
			At: f.At.UTC(), Local: f.At.Format(time.RFC3339), Nominal: f.Nominal, Fold: f.Fold, Shifted: f.Shifted,
		})
	}
	if v.Last != nil {
		s.Last = &pastFire{Nominal: v.Last.Nominal, Fold: v.Last.Fold, FiredAt: v.Last.FiredAt.UTC(), RunID: string(v.Last.RunID)}
	}
	return s
}
