package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// BuiltinCallback is the builtin that posts the end of a run. No document can
// name it: it is not among spec.Builtins.
const BuiltinCallback = "callback"

// callbackTool stands for a definition where a kind is chosen.
var callbackTool = &spec.Tool{Effect: spec.EffectIdempotent, Builtin: BuiltinCallback, Pool: events.PoolCallbacks}

// callbackRetry is the schedule of callbacks: seventeen attempts or so in the 72
// hours after the run's end. Attempts is only a bound on what a receiver that
// breaks our workers can do.
var callbackRetry = Retry{
	Waits:    []time.Duration{5 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 6 * time.Hour},
	Attempts: 100,
	Age:      72 * time.Hour,
}

// callbackTimeout bounds one attempt.
const callbackTimeout = 30 * time.Second

// Ends reads runs that have ended and whose end is to be posted.
type Ends interface {
	// EndOf returns where the end of a run is to be posted to, and when it was
	// by the database's clock. ErrNotFound when the namespace has no such run,
	// or it names no callback, or it has not ended.
	EndOf(ctx context.Context, namespace string, run events.RunID) (url string, at time.Time, err error)
	// Ended returns what is posted, every digit as the run had it.
	Ended(ctx context.Context, namespace string, run events.RunID) (events.RunEnded, error)
}

// Callbacks is what the service needs to post the ends of runs.
type Callbacks struct {
	Ends Ends
	// Definition returns the callback section of a version of an agent or flow,
	// nil when it has none; ErrNoDefinition.
	Definition func(ctx context.Context, namespace, kind string, d events.Digest) (*spec.Callback, error)
}

// planCallback is plan for the call that posts a run's end. The run, and not the
// message, says where to.
func (s *Service) planCallback(ctx context.Context, j *job) error {
	if s.callbacks.Ends == nil {
		return fmt.Errorf("call %s: this process posts no callbacks", j.c.CallID)
	}
	j.tool = callbackTool
	j.plan = Plan{Class: ClassIdempotent, Key: j.c.Key, Policy: DoubtRetry, Unasked: true, Pool: events.PoolCallbacks, Timeout: callbackTimeout}
	never := func(format string, args ...any) error {
		j.plan.Problem = problem(CodeNoCallback, format, args...)
		return nil
	}
	var args events.CallbackArgs
	if err := json.Unmarshal(j.c.Args, &args); err != nil {
		return never("its arguments are not those of a callback")
	}
	url, at, err := s.callbacks.Ends.EndOf(ctx, j.c.Namespace, j.c.RunID)
	switch {
	case errors.Is(err, ErrNotFound):
		return never("run %s has not ended, or names no callback", j.c.RunID)
	case err != nil:
		return fmt.Errorf("read end of run %s: %w", j.c.RunID, err)
	case url != args.URL:
		return never("run %s names another address", j.c.RunID)
	}
	j.callback, err = s.callbacks.Definition(ctx, j.c.Namespace, args.Kind, j.c.ToolDigest)
	switch {
	case errors.Is(err, ErrNoDefinition) || err == nil && j.callback == nil:
		return never("the version of %s %s that the run executed says nothing of callbacks", args.Kind, args.Name)
	case err != nil:
		return fmt.Errorf("find %s %s of call %s: %w", args.Kind, args.Name, j.c.CallID, err)
	}
	j.plan.Retry = callbackRetry
	j.plan.Retry.Since = at
	return nil
}
