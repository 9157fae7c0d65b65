package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

type migrateInput struct {
	RunPath
	IdempotencyKey
	Body *struct {
		To     string `json:"to,omitempty" maxLength:"100" doc:"digest of a version of the run's agent, or current (the default): what its name means now"`
		DryRun bool   `json:"dry_run,omitempty" doc:"only say what would change, and whether the run could be moved"`
		Reason string `json:"reason,omitempty" maxLength:"1000"`
	}
}

// Change is one difference between two versions.
type Change struct {
	Kind   string          `json:"kind" doc:"agent, model, tool or budget"`
	Name   string          `json:"name"`
	Op     string          `json:"op" enum:"added,removed,changed"`
	Path   string          `json:"path,omitempty" doc:"the member that differs; absent for the definition as a whole, which has its digests"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// Move is a row about moving a run to another version of its agent.
type Move struct {
	Seq       int64           `json:"seq" doc:"number of its event"`
	State     string          `json:"state" enum:"waiting,moved,refused" doc:"waiting: for the open calls, or the answer of the model"`
	At        time.Time       `json:"at"`
	From      events.Digest   `json:"from,omitempty"`
	To        events.Digest   `json:"to"`
	Principal string          `json:"principal"`
	Reason    string          `json:"reason,omitempty"`
	Problem   *events.Problem `json:"problem,omitempty" doc:"why it was refused"`
}

type migrateOutput struct {
	Status   int
	Replayed string `header:"Idempotency-Replayed"`
	Body     struct {
		RunID     events.RunID    `json:"run_id"`
		CommandID string          `json:"command_id,omitempty" doc:"absent in a dry run"`
		DryRun    bool            `json:"dry_run,omitempty"`
		From      events.Digest   `json:"from"`
		To        events.Digest   `json:"to,omitempty"`
		Movable   bool            `json:"movable"`
		Problem   *events.Problem `json:"problem,omitempty" doc:"why the run cannot be moved"`
		Waits     string          `json:"waits,omitempty" doc:"what comes before the move"`
		Changes   []Change        `json:"changes"`
		More      bool            `json:"more_changes,omitempty"`
		Diff      string          `json:"diff" doc:"the changes for people"`
	}
}

// wireMoves shows of what waited only what still does.
func wireMoves(moves []console.Move) (out []Move) {
	state := map[string]string{events.FactMigrationOrdered: "waiting", events.FactMigrated: "moved", events.FactMigrationRefused: "refused"}
	for i, m := range moves {
		if m.Kind == events.FactMigrationOrdered && i > 0 {
			continue // what became of it is the row behind it
		}
		out = append(out, Move{Seq: m.Seq, State: state[m.Kind], At: m.At, From: m.From, To: m.To, Principal: m.Principal, Reason: m.Reason, Problem: m.Problem})
	}
	return out
}

// moveSentences says of each order what became of it.
func moveSentences(moves []console.Move) (out []string) {
	for _, m := range wireMoves(moves) {
		text := fmt.Sprintf("event %d: %s to %s by %s", m.Seq, m.State, m.To, m.Principal)
		if m.Reason != "" {
			text += ": " + m.Reason
		}
		if m.Problem != nil {
			text += " (" + m.Problem.Message + ")"
		}
		out = append(out, text)
	}
	return out
}

func (a *api) migrate() {
	op := command("migrate", events.RunMigrate, "Move a run to another version of its agent")
	op.Description = "Answers what would change. 202 means that the order is kept and will reach the runner once. The run goes on under the new version when no call is open and the model is not answering: " +
		"what was asked is finished under the old one. With dry_run the answer is 200 and nothing is ordered. 409 says why the run cannot be moved."
	op.Errors = []int{http.StatusConflict, http.StatusUnprocessableEntity}
	door.Register(a.door, op, authn.Operator, func(ctx context.Context, in *migrateInput) (*migrateOutput, error) {
		o := console.MigrateOrder{To: console.ToCurrent}
		if b := in.Body; b != nil {
			o.DryRun, o.Reason = b.DryRun, b.Reason
			if b.To != "" {
				o.To = b.To
			}
		}
		if err := o.Check(); err != nil {
			return nil, door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, err.Error())
		}
		p, _ := authn.FromContext(ctx)
		m, err := a.console.Migrate(ctx, p.Namespace, p.Name, in.Key, in.ID, o)
		if refused, ok := errors.AsType[*console.RefusedError](err); ok {
			return nil, door.Error(http.StatusConflict, refused.Code, refused.Message)
		}
		if err != nil {
			return nil, problem(err, "run %s", in.ID)
		}
		return migrated(m, o.DryRun), nil
	})
}

func migrated(m console.Migration, dry bool) *migrateOutput {
	out := &migrateOutput{Status: http.StatusAccepted}
	b := &out.Body
	b.RunID, b.CommandID, b.DryRun, b.From, b.To, b.Movable, b.Problem, b.More = m.Run.ID, m.Command.ID, dry, m.From.Digest, m.To.Digest, m.Problem == nil, m.Problem, m.More
	if dry {
		out.Status = http.StatusOK
	}
	if m.Waits {
		if b.Waits = m.Run.Waiting; b.Waits == "" {
			b.Waits = "the answer of the model"
		}
	}
	if m.Replayed {
		out.Replayed = "true"
	}
	b.Changes, b.Diff = make([]Change, 0, len(m.Changes)), console.ChangeText(m.Changes, m.More)
	for _, c := range m.Changes {
		b.Changes = append(b.Changes, Change{Kind: c.Kind, Name: c.Name, Op: c.Op, Path: c.Path, Before: c.Before, After: c.After})
	}
	return out
}
