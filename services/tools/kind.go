package tools

import (
	"context"
	"encoding/json"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Kind runs one kind of tool. It never retries by itself and is safe for
// concurrent use.
type Kind interface {
	// Name is a short stable word: "http".
	Name() string
	// Runs reports whether the definition is of this kind.
	Runs(t *spec.Tool) bool
	// Act makes one attempt within ctx. Verdict is NotSent only when nothing
	// can have reached the other side; when in doubt it is Ambiguous. Secrets
	// are resolved here and appear in no part of the outcome.
	Act(ctx context.Context, r Request) Outcome
}

// Request is one attempt at a call.
type Request struct {
	Tool   *spec.Tool
	Class  Class
	Policy string
	CallID events.CallID
	RunID  events.RunID
	// Namespace is where definitions that the tool names are found.
	Namespace string
	Args      json.RawMessage
	// Key is the same for every attempt. Kinds hand it to the other side.
	Key string
	// Look says that any complete answer of the other side counts as Happened,
	// a refusal too: the caller judges it.
	Look bool
	// Discard says that nothing of the answer is kept: there are no artifacts.
	Discard bool
	// ReplyURL is where the other side posts a result that comes later.
	ReplyURL string
	// Callback is set for BuiltinCallback.
	Callback *spec.Callback
}
