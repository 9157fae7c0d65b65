package events

import (
	"encoding/json"
	"fmt"
	"time"
)

// PoolCallbacks is the tool pool that posts the ends of runs.
const PoolCallbacks = "callbacks"

// CallbackTool is the tool name of the call that posts the end of a run. No
// definition can have it, because of the full stop. ToolDigest of such a call is
// the digest of the run's agent or flow, and Args is a CallbackArgs.
const CallbackTool = "holdfast.callback"

// Callback says where the end of a run is posted to.
type Callback struct {
	URL string `json:"url"`
}

// CallbackArgs are the arguments of the call that posts the end of a run. What
// is posted is read from the run when the call is made.
type CallbackArgs struct {
	URL  string `json:"url"`
	Kind string `json:"kind"` // KindAgent or KindFlow
	Name string `json:"name"` // of the agent or flow, whose callback section signs
}

// CallbackKey is the ledger's key of the call that posts the end of a run, which
// is journal row seq: a run ends once, and its end is posted once.
func CallbackKey(run RunID, seq int64) string { return fmt.Sprintf("%s/%d/end", run, seq) }

// TypeRunEnded is the type of the body that is posted.
const TypeRunEnded = "run.ended"

// RunEnded is the body that is posted to a callback URL. It is the same in every
// attempt.
type RunEnded struct {
	Type      string       `json:"type"`      // TypeRunEnded
	Timestamp time.Time    `json:"timestamp"` // of the end
	Data      RunEndedData `json:"data"`
}

// RunEndedData is the run at its end.
type RunEndedData struct {
	RunID      RunID             `json:"run_id"`
	Namespace  string            `json:"namespace"`
	Status     string            `json:"status"`          // completed, failed, cancelled or expired
	Agent      string            `json:"agent,omitempty"` // one of Agent and Flow
	Flow       string            `json:"flow,omitempty"`
	Output     json.RawMessage   `json:"output,omitempty"`
	Error      json.RawMessage   `json:"error,omitempty"` // code and message
	Labels     map[string]string `json:"labels,omitempty"`
	AcceptedAt time.Time         `json:"accepted_at"`
	StartedAt  time.Time         `json:"started_at"`
	EndedAt    time.Time         `json:"ended_at"`
	Usage      RunUsage          `json:"usage"`
}

// RunUsage is what a run has used.
type RunUsage struct {
	ModelCalls int64 `json:"model_calls"`
	ToolCalls  int64 `json:"tool_calls"`
	Tokens     int64 `json:"tokens"`
}
