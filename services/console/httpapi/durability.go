package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/services/console"
)

// Durability is what became of work whose worker was lost, and what was kept from
// happening twice.
type Durability struct {
	Since       time.Time `json:"since"`
	Until       time.Time `json:"until"`
	Lost        int64     `json:"workers_lost" doc:"times that a run lost its worker"`
	HandedOver  int64     `json:"handed_over" doc:"times that a worker which was told to stop left a run to another"`
	Runs        int64     `json:"runs" doc:"runs that lost a worker, each once; those deleted since are not counted"`
	Resumed     int64     `json:"resumed" doc:"of these runs: gone on after the last loss, or ended"`
	Parked      int64     `json:"parked" doc:"of these runs: need a person now"`
	Open        int64     `json:"not_yet" doc:"of these runs: neither yet"`
	ResumeP50ms int64     `json:"resume_p50_ms" doc:"from the lost worker's last sign of life to the next one's claim, in ms; 0 without a loss"`
	ResumeP99ms int64     `json:"resume_p99_ms"`
	ResumeMaxms int64     `json:"resume_max_ms"`
	Prevented   int64     `json:"duplicates_prevented" doc:"calls that were answered with what another call under the same key did, and did nothing"`
	Refused     int64     `json:"mismatches_refused" doc:"calls that had the key of something else and did nothing"`
	InDoubt     int64     `json:"in_doubt" doc:"effects of which nobody knows now whether they happened"`
}

type durabilityInput struct {
	Since string `query:"since" maxLength:"40" doc:"a length of time before now like 24h (default) or 7d, at most 90d"`
}

type durabilityOutput struct{ Body Durability }

func (a *api) durability() {
	door.Register(a.door, huma.Operation{
		OperationID: "get-durability", Method: http.MethodGet, Path: "/v1/durability", Summary: "Say what became of work whose worker was lost, and what was kept from happening twice", Tags: []string{"system"},
		Description: "Counted from what services have committed: a row for each time that a run went over to another worker, and the ledger's calls. Nothing is sampled or estimated.",
	}, authn.Viewer, func(ctx context.Context, in *durabilityInput) (*durabilityOutput, error) {
		who, _ := authn.FromContext(ctx)
		over, err := console.DurabilityOver(in.Since)
		if err != nil {
			return nil, door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, err.Error())
		}
		d, err := a.console.Durability(ctx, who.Namespace, over)
		if err != nil {
			return nil, err
		}
		return &durabilityOutput{durabilityOf(d)}, nil
	})
}

func durabilityOf(d console.Durability) Durability {
	return Durability{
		Since: d.Since, Until: d.Until, Lost: d.Lost, HandedOver: d.HandedOver, Runs: d.Runs, Resumed: d.Resumed, Parked: d.Parked, Open: d.Open,
		ResumeP50ms: d.ResumeP50.Milliseconds(), ResumeP99ms: d.ResumeP99.Milliseconds(), ResumeMaxms: d.ResumeMax.Milliseconds(),
		Prevented: d.Prevented, Refused: d.Refused, InDoubt: d.InDoubt,
	}
}

// durabilityRow is the same as the page of the system shows it.
type durabilityRow struct {
	console.Durability
	Over string
}

// Success is how many of the runs that lost a worker went on.
func (r durabilityRow) Success() string {
	if r.Runs == 0 {
		return "no run lost its worker"
	}
	return fmt.Sprintf("%d of %d", r.Resumed, r.Runs)
}

// Times are the times to resume, in words.
func (r durabilityRow) Times() string {
	if r.Lost == 0 {
		return ""
	}
	s := func(d time.Duration) string {
		return fmt.Sprintf("%d.%03d\u00a0s", d/time.Second, d%time.Second/time.Millisecond)
	}
	return fmt.Sprintf("half within %s, 99 of 100 within %s, the longest %s", s(r.ResumeP50), s(r.ResumeP99), s(r.ResumeMax))
}

// durabilities are what the page shows: a day and a week.
func (a *api) durabilities(ctx context.Context, namespace string) (rows []durabilityRow, err error) {
	for _, over := range []struct {
		time.Duration
		name string
	}{{24 * time.Hour, "24 hours"}, {7 * 24 * time.Hour, "7 days"}} {
		d, err := a.console.Durability(ctx, namespace, over.Duration)
		if err != nil {
			return nil, err
		}
		rows = append(rows, durabilityRow{d, over.name})
	}
	return rows, nil
}
