package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/services/console"
)

// System is who works and what is behind.
type System struct {
	Workers []Worker      `json:"workers"`
	Streams []Stream      `json:"streams"`
	Stops   []StopInForce `json:"stops,omitempty" doc:"in force in the namespace; POST /v1/stops/{id}/release ends one"`
	// StreamsError says why streams are missing; the rest is true anyway.
	StreamsError string    `json:"streams_error,omitempty"`
	Event        string    `json:"event,omitempty" doc:"place of the newest event that this process has heard"`
	At           time.Time `json:"at"`
}

// Worker is one process that does work.
type Worker struct {
	Service     string    `json:"service"`
	Name        string    `json:"name"`
	Alive       bool      `json:"alive"`
	BeatAgeMs   int64     `json:"beat_age_ms" doc:"since its last heartbeat, by the database's clock"`
	StartedAt   time.Time `json:"started_at"`
	Pools       []string  `json:"pools,omitempty" doc:"that a tools worker works for"`
	Release     string    `json:"release,omitempty" doc:"of its program; absent when that is older than this member"`
	ClockSkewMs int64     `json:"clock_skew_ms" doc:"how far its own clock is ahead of the database's; negative: behind"`
}

func wireWorker(w console.Worker) Worker {
	return Worker{Service: w.Service, Name: w.Name, Alive: w.Alive(), BeatAgeMs: w.Age.Milliseconds(), StartedAt: w.StartedAt, Pools: w.Pools, Release: w.Release, ClockSkewMs: w.Skew.Milliseconds()}
}

// StopInForce is an order that no write of its scope leaves.
type StopInForce struct {
	ID    string    `json:"stop_id"`
	Scope string    `json:"scope" enum:"all,agent,tool"`
	Name  string    `json:"name,omitempty"`
	Note  string    `json:"note"`
	By    string    `json:"by"`
	Since time.Time `json:"since"`
}

// Stream is the backlog of one consumer.
type Stream struct {
	Stream      string `json:"stream"`
	Consumer    string `json:"consumer"`
	Pending     uint64 `json:"pending" doc:"not yet delivered"`
	AckPending  uint64 `json:"ack_pending" doc:"delivered and not finished"`
	Redelivered int    `json:"redelivered"`
}

type systemOutput struct{ Body System }

func (a *api) system() {
	door.Register(a.door, huma.Operation{
		OperationID: "get-system", Method: http.MethodGet, Path: "/v1/system", Summary: "Say who works and what is behind", Tags: []string{"system"},
	}, authn.Viewer, func(ctx context.Context, _ *struct{}) (*systemOutput, error) {
		who, _ := authn.FromContext(ctx)
		s, err := a.console.System(ctx, who.Namespace)
		if err != nil {
			return nil, err
		}
		out := System{Workers: make([]Worker, 0, len(s.Workers)), Streams: make([]Stream, 0, len(s.Lags)), StreamsError: s.NoLag, At: s.At}
		if s.Events.Epoch != "" {
			out.Event = s.Events.String()
		}
		for _, h := range s.Stops {
			out.Stops = append(out.Stops, StopInForce{ID: h.ID, Scope: h.Scope, Name: h.Name, Note: h.Note, By: h.By, Since: h.Since.UTC()})
		}
		for _, w := range s.Workers {
			out.Workers = append(out.Workers, wireWorker(w))
		}
		for _, l := range s.Lags {
			out.Streams = append(out.Streams, Stream{Stream: l.Stream, Consumer: l.Durable, Pending: l.Pending, AckPending: l.AckPending, Redelivered: l.Redelivered})
		}
		return &systemOutput{out}, nil
	})
}
