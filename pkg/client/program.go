package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Errors of a program's own run.
var (
	// ErrStale: somebody else has saved a checkpoint since this one was loaded.
	ErrStale = errors.New("checkpoint is stale")
	// ErrRunEnded: the run has ended and takes no more.
	ErrRunEnded = errors.New("run has ended")
)

// Program is a run whose loop is the caller's own program: Holdfast keeps its
// state and its side effects, and never runs it. It is not safe for concurrent
// use; two processes may hold the same run, and Save tells the one that is late.
type Program struct {
	ID      events.RunID
	client  *Client
	version int64 // of the state that Load returned or Save stored
}

// ProgramRequest starts a program's own run.
type ProgramRequest struct {
	Name   string          // of the program
	Input  json.RawMessage // nil means {}
	Labels map[string]string
	// IdempotencyKey makes a repeat the same run, from any process: a program that
	// was killed comes back to its run by it. Empty means a fresh key.
	IdempotencyKey string
}

// StartProgram starts a program's own run, or finds the one that the key has
// started. Load says how far it is.
func (c *Client) StartProgram(ctx context.Context, r ProgramRequest) (*Program, error) {
	input := r.Input
	if input == nil {
		input = json.RawMessage("{}")
	}
	body := struct {
		Name   string            `json:"name"`
		Input  json.RawMessage   `json:"input"`
		Labels map[string]string `json:"labels,omitempty"`
	}{r.Name, input, r.Labels}
	var out struct {
		RunID events.RunID `json:"run_id"`
	}
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/v1/runs", body: body, key: cmp.Or(r.IdempotencyKey, newKey()), idempotent: true}, &out)
	if err != nil {
		return nil, err
	}
	return c.Program(out.RunID), nil
}

// Program is the program's own run with the given id. It does not ask whether
// there is one: Load does.
func (c *Client) Program(id events.RunID) *Program { return &Program{ID: id, client: c} }

// Checkpoint is a saved state of a program's run.
type Checkpoint struct {
	RunID   events.RunID    `json:"run_id"`
	Version int64           `json:"version"` // 0 before the first Save
	Status  string          `json:"status"`  // of the run: running, completed, failed, cancelled
	State   json.RawMessage `json:"state"`   // null before the first Save
	SavedAt time.Time       `json:"saved_at,omitzero"`
}

// Decode reads the state into v; numbers that land in an any are json.Number.
func (c Checkpoint) Decode(v any) error { return Result{JSON: c.State}.Decode(v) }

// Load reads the newest checkpoint. What Save stores next replaces exactly it.
func (p *Program) Load(ctx context.Context) (Checkpoint, error) {
	out, err := get[Checkpoint](ctx, p.client, p.path("checkpoint"), nil)
	if err == nil {
		p.version = out.Version
	}
	return out, err
}

// Save stores state, any value that encodes to JSON, as the next checkpoint. It
// is safe to repeat and is repeated when the server cannot be reached. ErrStale
// when another process has saved since: Load again, or give up. ErrRunEnded.
func (p *Program) Save(ctx context.Context, state any) error {
	raw, err := marshal(state)
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	body := struct {
		State json.RawMessage `json:"state"`
	}{raw}
	var out Checkpoint
	_, err = p.client.do(ctx, call{
		method: http.MethodPut, path: p.path("checkpoint"), body: body, key: newKey(), idempotent: true,
		match: strconv.Quote(strconv.FormatInt(p.version, 10)),
	}, &out)
	switch {
	case err == nil:
		p.version = out.Version
		return nil
	case StatusOf(err) == http.StatusPreconditionFailed:
		return fmt.Errorf("save run %s over version %d: %w: %w", p.ID, p.version, ErrStale, err)
	}
	return ended(err)
}

// Version is that of the state which Load returned or Save stored last.
func (p *Program) Version() int64 { return p.version }

// Once is Client.Once for this run: the key begins with the run's id, so that it
// is the run's own, and the ledger shows the effect with the run.
func (p *Program) Once(ctx context.Context, key string, fn func(context.Context, Fence) (any, error)) (Result, error) {
	return p.OnceAct(ctx, Act{Key: string(p.ID) + "/" + key}, fn)
}

// OnceAct is Client.OnceAct for this run. The key is used as it is: a business
// key such as "refund/ch_17" holds across runs.
func (p *Program) OnceAct(ctx context.Context, a Act, fn func(context.Context, Fence) (any, error)) (Result, error) {
	a.RunID = p.ID
	return p.client.OnceAct(ctx, a, fn)
}

// Complete ends the run with an output, any value that encodes to JSON.
func (p *Program) Complete(ctx context.Context, output any) error {
	raw, err := marshal(output)
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	return p.end(ctx, map[string]any{"status": events.StatusCompleted, "output": raw})
}

// Fail ends the run with an error.
func (p *Program) Fail(ctx context.Context, code, message string) error {
	return p.end(ctx, map[string]any{"status": events.StatusFailed, "error": events.Problem{Code: code, Message: clip(message, 4000)}})
}

func (p *Program) end(ctx context.Context, body map[string]any) error {
	_, err := p.client.do(ctx, call{method: http.MethodPost, path: p.path("complete"), body: body, idempotent: true}, nil)
	return ended(err)
}

func ended(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Code == "run_ended" {
		return fmt.Errorf("%w: %w", ErrRunEnded, err)
	}
	return err
}

func (p *Program) path(what string) string {
	return "/v1/runs/" + url.PathEscape(string(p.ID)) + "/" + what
}
