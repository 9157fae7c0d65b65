package events

import "time"

// SleepStarted is a call that waits for a time. The timer row ends it.
type SleepStarted struct {
	CallID CallID    `json:"call_id"`
	Until  time.Time `json:"until"`
	// Past is the time of the row, by the database's clock, when Until had come by
	// then: the call has its result and nothing is waited for.
	Past time.Time `json:"past,omitzero"`
}

// ChildStarted is a run that a call starts. Its id follows from this row.
type ChildStarted struct {
	CallID CallID `json:"call_id"`
	Child
	// Detached gives the call its result, the run's id, at once.
	Detached bool `json:"detached,omitempty"`
}

// QuestionAsked is a question to a person, whose answer is the call's result.
type QuestionAsked struct {
	CallID     CallID     `json:"call_id"`
	ApprovalID ApprovalID `json:"approval_id"`
	Bind       Digest     `json:"bind"`     // of tool, version and arguments
	Question   Question   `json:"question"` // without its schema, which the tool's version has
}
