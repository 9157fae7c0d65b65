package runner

import (
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// maxRefusals is how often people are asked about one and the same call before their
// no stands for the rest of the run.
const maxRefusals = 2

// Refusal is a person's no to a call.
type Refusal struct {
	Row    int64 // that it was recorded in
	Tool   string
	Digest events.Digest // of the arguments
	By     string
	Reason string
}

// refuse keeps a person's no, for when the model proposes the same again.
func (s *State) refuse(row int64, c *Call, d events.ApprovalDecision) {
	if d.Decision == events.Reject && !c.onlyAsks() {
		s.Refusals = append(s.Refusals[:len(s.Refusals):len(s.Refusals)], Refusal{Row: row, Tool: c.Tool, Digest: c.ArgsDigest, By: d.By, Reason: d.Comment})
	}
}

// refusals counts how often people said no to just this call, before row, and finds
// the newest; nil for none. What somebody told the model since, and a fork, begin anew:
// then a person wants it to try again.
func (s *State) refusals(tool string, args events.Digest, row int64) (n int, newest *Refusal) {
	for i := range s.Refusals {
		if r := &s.Refusals[i]; r.Tool == tool && r.Digest == args && r.Row < row {
			n, newest = n+1, r
		}
	}
	return n, newest
}

// refusedBefore is what the model reads in a person's stead when it proposes what was
// refused often enough; nil when a person is to be asked.
func (s *State) refusedBefore(asked *events.AskedCall) *events.Problem {
	n, newest := s.refusals(asked.Tool, asked.ArgsDigest, s.Seq+1)
	if n < maxRefusals {
		return nil
	}
	msg := fmt.Sprintf("people rejected this very call %d times in this run; it was not made and nobody is asked about it again. Do something else, or finish and say that it was refused", n)
	if newest.Reason != "" {
		msg += ". The last reason: " + newest.Reason
	}
	return &events.Problem{Code: codeRejected, Message: msg}
}

// codeRejected is the problem of a call that a person said no to.
const codeRejected = "rejected"
