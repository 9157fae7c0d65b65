package events

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// Rules that a call may carry beside its tool's policy.
const (
	// RuleRecall: the call stands for one of another run and is answered from the
	// ledger under that one's key. It never begins an act.
	RuleRecall = "recall"
	// RuleFork: a person's yes is needed, whatever the tool's policy says. The
	// policy that the yes is bound to is this word.
	RuleFork = "fork"
)

// CodeNothingToRecall is the problem of a call under RuleRecall for which the
// ledger has nothing: the call that it stands for did not happen.
const CodeNothingToRecall = "nothing_to_recall"

// Bounds of a fork's order.
const (
	ForkBytes        = 256 << 10 // of all edits together: it travels in one message
	ForkMessageBytes = 64 << 10  // of a message to the model
	ForkResults      = 100       // results that may be replaced
)

// ForkRun asks for a new run that goes on from another's rows. Its ID is
// "command:<id>".
type ForkRun struct {
	ID    string `json:"id"`
	RunID RunID  `json:"run_id"` // of the new run
	From  RunID  `json:"from"`
	Ref   Ref    `json:"ref"` // what From executes
	// At is the newest row that may be taken over; 0 for as many as make sense.
	At int64 `json:"at,omitempty"`
	// Retry continues a run that has ended without success, with nothing edited.
	Retry      bool      `json:"retry,omitempty"`
	Edits      ForkEdits `json:"edits,omitzero"`
	Principal  string    `json:"principal"`
	Reason     string    `json:"reason,omitempty"`
	AcceptedAt time.Time `json:"accepted_at,omitzero"`
}

// ForkEdits are what a fork does otherwise than the run that it comes from.
type ForkEdits struct {
	Input json.RawMessage `json:"input,omitempty"`
	// Prompt replaces the first user message as it is; Instructions the system
	// prompt; Message is read by the model next.
	Prompt       string `json:"prompt,omitempty"`
	Instructions string `json:"instructions,omitempty"`
	Message      string `json:"message,omitempty"`
	// Results replace what calls in the history gave, by call.
	Results map[CallID]json.RawMessage `json:"results,omitempty"`
}

// None reports whether nothing is edited.
func (e ForkEdits) None() bool {
	return len(e.Input)+len(e.Results) == 0 && e.Prompt+e.Instructions+e.Message == ""
}

// Origin says whose rows a run begins with: those from 2 to Row are copies, with
// their numbers and their ids of calls.
type Origin struct {
	RunID RunID `json:"run_id"`
	Row   int64 `json:"row"`
}

// Forked follows the rows that were taken over.
type Forked struct {
	CommandID string    `json:"command_id"`
	From      RunID     `json:"from"`
	At        int64     `json:"at"`                 // newest row that was taken over: between two turns
	AskedAt   int64     `json:"asked_at,omitempty"` // what was asked for
	Retry     bool      `json:"retry,omitempty"`
	Edits     ForkEdits `json:"edits,omitzero"`
	Principal string    `json:"principal,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	// Effects are the calls of From that changed something or may have, before
	// and after At, as the ledger and the journal had them.
	Effects []PastEffect `json:"effects,omitempty"`
}

// PastEffect is a call of another run that is not made again.
type PastEffect struct {
	CallID     CallID `json:"call_id"`
	Row        int64  `json:"row"` // of the answer that asked for it
	Tool       string `json:"tool"`
	ArgsDigest Digest `json:"args_digest"`
	Key        string `json:"key"`
	State      string `json:"state"` // "succeeded", "unknown", "open"
}

// Recalled names the call that another one stands for.
type Recalled struct {
	CallID CallID `json:"call_id"`
	Key    string `json:"key"`
}

// Row is the journal row of the answer that asked for the call; 0 for a
// malformed id.
func (c CallID) Row() int64 {
	if len(c) < 38 {
		return 0
	}
	text, _, _ := strings.Cut(string(c[37:]), "-")
	row, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return row
}
