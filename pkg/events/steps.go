package events

import (
	"encoding/json"
	"time"
)

// ItemsStarted starts items of a flow step: calls of a tool, questions to people
// and sleeps, and of every kind of step the items that failed before.
type ItemsStarted struct {
	Step  string     `json:"step"`
	Total int        `json:"total"` // items of the step
	Items []StepItem `json:"items"`
}

// StepItem is one item. Exactly one of Child, Call and Until says what it is.
type StepItem struct {
	Item  string `json:"item"` // "<step>/<index>", "<step>/<index>/<attempt>" after a failure
	Index int    `json:"index"`
	// Attempt counts the starts of the item; absent for the first.
	Attempt int        `json:"attempt,omitempty"`
	Child   *Child     `json:"child,omitempty"`
	Call    *AskedCall `json:"call,omitempty"`
	Until   time.Time  `json:"until,omitzero"` // of a sleep
}

// StepCall is what a call of a flow's step has besides what every call has.
type StepCall struct {
	Step    string `json:"step"`
	Index   int    `json:"index"`
	Attempt int    `json:"attempt,omitempty"`
	// Question makes the call a question alone: a person says yes or no to this
	// text, and nothing is sent to the tools service.
	Question       string `json:"question,omitempty"`
	ExpiresAfterMs int64  `json:"expires_after_ms,omitempty"`
}

// StepSkipped is a step whose condition did not hold. It counts as ended.
type StepSkipped struct {
	Step string `json:"step"`
	When string `json:"when"` // the condition
}

// ItemRetried is a failed item that is started again when its timer has fired.
type ItemRetried struct {
	Step    string    `json:"step"`
	Index   int       `json:"index"`
	Attempt int       `json:"attempt"` // the next one, 2 or more
	At      time.Time `json:"at"`
	Error   *Problem  `json:"error,omitempty"` // of the attempt that failed
}

// ItemsKept are the finished items of a step that a run takes over from the one
// that it retries.
type ItemsKept struct {
	Step    string     `json:"step"`
	Total   int        `json:"total"` // items of the step; those that are not kept run
	Skipped bool       `json:"skipped,omitempty"`
	Items   []KeptItem `json:"items,omitempty"`
}

// KeptItem is an item with its output.
type KeptItem struct {
	Index  int             `json:"index"`
	Output json.RawMessage `json:"output,omitempty"`
}

// StepApproved is the output of a flow step that asked a person and got a yes.
type StepApproved struct {
	Approved bool      `json:"approved"`
	By       string    `json:"by"`
	At       time.Time `json:"at"`
	Comment  string    `json:"comment,omitempty"`
}

// StepSlept is the output of a flow step that slept.
type StepSlept struct {
	Until time.Time `json:"until"`
}
