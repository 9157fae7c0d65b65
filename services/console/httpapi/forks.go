package httpapi

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

// Link is the other run of a fork or a retry.
type Link struct {
	RunID  events.RunID `json:"run_id"`
	Retry  bool         `json:"retry,omitempty" doc:"nothing was edited: the run is tried again"`
	Row    int64        `json:"row" doc:"the newest row that both have"`
	Status string       `json:"status,omitempty"`
}

func wireOrigin(l *console.Link) *Link {
	if l == nil {
		return nil
	}
	return &Link{RunID: l.RunID, Retry: l.Retry, Row: l.Row}
}

func wireForks(ls []console.Link) (out []Link) {
	for _, l := range ls {
		out = append(out, Link(l))
	}
	return out
}

type forkInput struct {
	RunPath
	IdempotencyKey
	Body struct {
		At           int64                             `json:"at,omitempty" minimum:"1" doc:"the newest row to take over; inside a turn, the newest one before it is taken; absent: as many rows as make sense"`
		Input        json.RawMessage                   `json:"input,omitempty" doc:"another input"`
		Prompt       string                            `json:"prompt,omitempty" doc:"the first message to the model, as it is"`
		Instructions string                            `json:"instructions,omitempty" doc:"another system prompt"`
		Message      string                            `json:"message,omitempty" doc:"what the model reads next"`
		Results      map[events.CallID]json.RawMessage `json:"results,omitempty" doc:"other results of calls in the history, by call_id"`
		Reason       string                            `json:"reason,omitempty" maxLength:"1000"`
	}
}

// Effect is a call that is not made again.
type Effect struct {
	CallID events.CallID `json:"call_id"`
	Row    int64         `json:"row" doc:"of the answer that asked for it"`
	Tool   string        `json:"tool"`
	Key    string        `json:"key"`
	State  string        `json:"state" doc:"succeeded, unknown, or intent: it is under way"`
}

type forkOutput struct {
	Replayed string `header:"Idempotency-Replayed"`
	Location string `header:"Location"`
	Body     struct {
		CommandID string          `json:"command_id"`
		RunID     events.RunID    `json:"run_id" doc:"of the new run"`
		From      events.RunID    `json:"from"`
		AskedAt   int64           `json:"asked_at,omitempty"`
		At        int64           `json:"at,omitempty" doc:"the row that was taken; absent while no runner has taken the new run: get it"`
		Status    string          `json:"status" doc:"of the new run; it failed when the order cannot be carried out, see error"`
		Error     json.RawMessage `json:"error,omitempty"`
		Effects   []Effect        `json:"effects" doc:"what the old run changed, or may have, behind the row: an equal call is answered from the ledger"`
		More      bool            `json:"more_effects,omitempty" doc:"there are more than 200"`
	}
}

func (a *api) forks() {
	op := command("fork", events.RunFork, "Begin a run with the rows of another one, with edits")
	op.Description = "Takes the rows of an agent's run up to one between two turns, also of one whose later rows cannot be read. 202 means that the new run is kept and begins once. " +
		"A call that equals one which the old run made is answered from the ledger; every other call that changes something waits for a person."
	door.Register(a.door, op, authn.Operator, func(ctx context.Context, in *forkInput) (*forkOutput, error) {
		b := in.Body
		return a.fork(ctx, in.Key, console.ForkOrder{From: in.ID, At: b.At, Reason: b.Reason,
			Edits: events.ForkEdits{Input: b.Input, Prompt: b.Prompt, Instructions: b.Instructions, Message: b.Message, Results: b.Results}})
	})
	op = command("retry", "retry", "Try a failed run again from its last good row")
	op.Description = "A new run goes on from the last row between two turns. What the old one did is answered from the ledger. A run is retried once; retry the retry."
	door.Register(a.door, op, authn.Operator, func(ctx context.Context, in *reasonInput) (*forkOutput, error) {
		o := console.ForkOrder{From: in.ID, Retry: true}
		if in.Body != nil {
			o.Reason = in.Body.Reason
		}
		return a.fork(ctx, in.Key, o)
	})
}

func (a *api) fork(ctx context.Context, key string, o console.ForkOrder) (*forkOutput, error) {
	if err := o.Check(); err != nil {
		return nil, door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, err.Error())
	}
	p, _ := authn.FromContext(ctx)
	f, err := a.console.Fork(ctx, p.Namespace, p.Name, key, o)
	if err != nil {
		return nil, problem(err, "run %s", o.From)
	}
	out := &forkOutput{Location: "/v1/runs/" + string(f.RunID)}
	b := &out.Body
	b.CommandID, b.RunID, b.From, b.AskedAt, b.At, b.Status, b.Error, b.More = f.ID, f.RunID, f.From, f.AskedAt, f.At, f.Status, f.Problem, f.More
	b.Effects = make([]Effect, 0, len(f.Behind))
	for _, e := range f.Behind {
		b.Effects = append(b.Effects, Effect{CallID: e.CallID, Row: e.Row, Tool: e.Tool, Key: e.Key, State: e.State})
	}
	if f.Replayed {
		out.Replayed = "true"
	}
	return out, nil
}
