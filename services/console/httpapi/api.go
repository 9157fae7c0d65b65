// Package httpapi is the console's HTTP door: runs, events, commands,
// definitions, tokens, the state of the system and the web pages.
package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/follow"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/console"
)

// SignInPath is where a browser brings its token; give it to the door's Config
// as SignIn.
const SignInPath = "/ui/sign-in"

// Codes of this door's own problems.
const (
	CodeInvalidDefinition = "invalid_definition"
	CodeKeyReused         = "idempotency_key_reused"
	CodeRunEnded          = "run_ended"
	CodeNameTaken         = "name_taken"
	CodeNoEvents          = "events_unavailable"
	CodeFlowRun           = "flow_run"
	CodeNotFailed         = "run_not_failed"
)

type api struct {
	console *console.Service
	door    *door.Door
	people  SignIn
}

// Register adds the console's routes to d. People sign in as the first of how says;
// without one with tokens.
func Register(d *door.Door, s *console.Service, how ...SignIn) {
	a := &api{console: s, door: d}
	if len(how) > 0 {
		a.people = how[0]
	}
	if a.people.Lifetime == 0 {
		a.people.Lifetime, a.people.Idle = DefaultSession, DefaultSessionIdle
	}
	a.runs()
	a.deletions()
	a.programs()
	a.commands()
	a.bulk()
	a.forks()
	a.messages()
	a.migrate()
	a.bundles()
	a.streams()
	a.resources()
	a.definitions()
	a.tokens()
	a.sessions()
	a.audit()
	a.system()
	a.doctor()
	a.budgets()
	a.cost()
	a.concurrency()
	a.pages()
	a.live()
	a.overview()
	a.durability()
}

// problem turns the console's errors into problems; others pass.
func problem(err error, what string, args ...any) error {
	if err == nil {
		return nil
	}
	what = fmt.Sprintf(what, args...)
	if gone, ok := errors.AsType[*console.DeletedError](err); ok {
		return door.Error(http.StatusGone, CodeDeleted, gone.Error())
	}
	if stays, ok := errors.AsType[*console.StaysError](err); ok {
		return door.Error(http.StatusConflict, CodeRunStays, what+" cannot be deleted: "+stays.Error())
	}
	switch {
	case errors.Is(err, console.ErrNotFound):
		return door.NotFound("there is no %s in this namespace", what)
	case errors.Is(err, console.ErrNameTaken):
		return door.Error(http.StatusConflict, CodeNameTaken, what+" would have the name of a person who signs in; choose another name")
	case errors.Is(err, console.ErrEnded):
		return door.Error(http.StatusConflict, CodeRunEnded, what+" has ended; an end is final")
	case errors.Is(err, console.ErrProgram):
		return door.Error(http.StatusConflict, CodeProgramRun, what+" is driven by its own program, no runner has it; end it with POST /v1/runs/{id}/complete")
	case errors.Is(err, console.ErrFlow):
		return door.Error(http.StatusConflict, CodeFlowRun, what+" is a flow's: it has no turns to go on from; fork or retry the runs of its steps")
	case errors.Is(err, console.ErrNotFailed):
		return door.Error(http.StatusConflict, CodeNotFailed, what+" has not ended without success, so there is nothing to retry; fork it to try another way")
	case errors.Is(err, console.ErrNoRow):
		return door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, "at: the journal of "+what+" is shorter")
	case errors.Is(err, console.ErrKeyReused):
		return door.Error(http.StatusConflict, CodeKeyReused,
			"this Idempotency-Key was used for another request; send a new key")
	case errors.Is(err, follow.ErrNoTail):
		return door.Error(http.StatusServiceUnavailable, CodeNoEvents,
			"the event stream cannot be reached yet; a run's own events can: /v1/runs/{id}/events").After(2 * time.Second)
	}
	if found := spec.Problems(err); len(found) > 0 {
		p := door.Error(http.StatusUnprocessableEntity, CodeInvalidDefinition,
			fmt.Sprintf("%d problems; nothing was stored", len(found)))
		if len(found) == 1 {
			p.Detail = found[0].Error() + "; nothing was stored"
		}
		for _, f := range found {
			p.Errors = append(p.Errors, door.ProblemError{Field: f.Field, Message: f.Message, File: f.File, Line: f.Line, Column: f.Column})
		}
		return p
	}
	return err
}

// orNil leaves an unknown time out of an answer.
func orNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
