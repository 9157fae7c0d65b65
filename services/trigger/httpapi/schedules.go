package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/trigger"
)

type scheduleInput struct {
	Name string `path:"name" maxLength:"62"`
}

type scheduleOutput struct{ Body schedule }

type schedulesOutput struct{ Body door.Page[schedule] }

type schedule struct {
	Name      string     `json:"name"`
	Namespace string     `json:"namespace"`
	Digest    string     `json:"digest"`
	Cron      string     `json:"cron,omitempty" doc:"this or every"`
	Every     string     `json:"every,omitempty"`
	TimeZone  string     `json:"time_zone"`
	Agent     string     `json:"agent,omitempty"`
	Flow      string     `json:"flow,omitempty"`
	Overlap   string     `json:"overlap" enum:"skip,bufferOne,bufferAll,cancelOther,allow"`
	Paused    bool       `json:"paused" doc:"by its definition or by an operator"`
	PausedBy  string     `json:"paused_by,omitempty" doc:"the operator"`
	PauseNote string     `json:"pause_note,omitempty"`
	PausedAt  *time.Time `json:"paused_at,omitempty"`
	Problem   string     `json:"problem,omitempty" doc:"why this version never fires"`
	// Next is empty for a paused schedule.
	Next     []fire    `json:"next" doc:"the next fires"`
	Missed   int64     `json:"missed" doc:"fires that were found too late to start a run"`
	Skipped  int64     `json:"skipped" doc:"fires that started no run because of the overlap policy or a pause"`
	Fired    int64     `json:"fired" doc:"runs that the clock started"`
	MaxFires int64     `json:"max_fires,omitempty" doc:"how many it may start"`
	Last     *pastFire `json:"last,omitempty"`
}

type fire struct {
	At      time.Time `json:"at" doc:"UTC"`
	Local   string    `json:"local" doc:"the same instant on the schedule's wall clock"`
	Nominal string    `json:"nominal" doc:"the wall time that the expression names"`
	Fold    int       `json:"fold,omitempty" doc:"1 on the second pass of a wall time that occurs twice"`
	Shifted bool      `json:"shifted,omitempty" doc:"the wall time is skipped that day, so it fires later"`
}

type pastFire struct {
	Nominal   string     `json:"nominal"`
	Fold      int        `json:"fold,omitempty"`
	Origin    string     `json:"origin" enum:"clock,now,backfill"`
	State     string     `json:"state" enum:"started,buffered,skipped,rejected"`
	Reason    string     `json:"reason,omitempty" doc:"why it was skipped or rejected, as a code"`
	Detail    string     `json:"detail,omitempty"`
	Skips     int64      `json:"skips,omitempty" doc:"how many fires a skipped one stands for"`
	Principal string     `json:"principal,omitempty" doc:"who asked for it"`
	Digest    string     `json:"digest" doc:"of the schedule's version"`
	DueAt     time.Time  `json:"due_at"`
	FiredAt   time.Time  `json:"fired_at"`
	EndedAt   *time.Time `json:"ended_at,omitempty" doc:"when its run ended"`
	RunID     string     `json:"run_id,omitempty" doc:"absent when the fire could start nothing"`
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
	a.registerScheduleActions(d, tags)
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

func scheduleBody(v trigger.ScheduleView) schedule {
	s := schedule{
		Name: v.Name, Namespace: v.Namespace, Digest: string(v.Digest), Cron: v.Cron, TimeZone: v.TimeZone,
		Overlap: cmp.Or(v.Overlap.Policy, spec.OverlapSkip), Paused: v.Paused || v.Pause != nil,
		Missed: v.Missed, Skipped: v.Skipped, Fired: v.Fired, MaxFires: v.MaxFires, Next: fireBodies(v.Next),
	}
	if v.Every > 0 {
		s.Every = spec.Duration(v.Every).String()
	}
	if p := v.Pause; p != nil {
		s.PausedBy, s.PauseNote, s.PausedAt = p.By, p.Note, utc(&p.At)
	}
	if v.Kind == events.KindFlow {
		s.Flow = v.Target
	} else {
		s.Agent = v.Target
	}
	if v.Broken != nil {
		s.Problem = v.Broken.Error()
	}
	if v.Last != nil {
		last := pastFireBody(*v.Last)
		s.Last = &last
	}
	return s
}

func fireBodies(fires []trigger.Fire) []fire {
	list := make([]fire, 0, len(fires))
	for _, f := range fires {
		list = append(list, fire{
			At: f.At.UTC(), Local: f.At.Format(time.RFC3339), Nominal: f.Nominal, Fold: f.Fold, Shifted: f.Shifted,
		})
	}
	return list
}

func pastFireBody(f trigger.PastFire) pastFire {
	return pastFire{
		Nominal: f.Nominal, Fold: f.Fold, Origin: f.Origin, State: f.State, Reason: f.Reason, Detail: f.Detail, Skips: f.Skips,
		Principal: f.Principal, Digest: string(f.Digest), DueAt: f.DueAt.UTC(), FiredAt: f.FiredAt.UTC(), EndedAt: utc(f.EndedAt),
		RunID: string(f.RunID),
	}
}
