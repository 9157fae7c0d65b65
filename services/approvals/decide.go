package approvals

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Limits of what a person may send with a decision.
const (
	MaxCommentChars = 4000
	MaxResultBytes  = 64 << 10
)

// Attempt is one person's try to decide. By and Door come from the verified
// identity and the door, never from what the person sent.
type Attempt struct {
	ID        events.ApprovalID
	Namespace string
	Decision  string // Approve, Reject, Happened, NotHappened, GiveUp or Answered of pkg/events
	Comment   string
	Result    json.RawMessage // what the call returned, with Happened; the answer, with Answered
	Args      json.RawMessage // with Approve: in the place of those that were asked about; nil: as asked
	Fields    json.RawMessage // with Approve: what the person filled in; nil: nothing
	Digest    events.Digest   // what the person saw; empty when the door did not show one
	By        string
	Groups    []string // of By
	Role      string   // of By
	Door      string

	// Of Args, by Service.Decide.
	Edit  *Edit
	Unfit string // why the tool would not take them
}

// person is who tries.
func (a Attempt) person() Person { return Person{Name: a.By, Groups: a.Groups, Role: a.Role} }

// Outcome is what became of an attempt. It is stored with the attempt.
type Outcome string

const (
	Decided   Outcome = "decided"    // this attempt ended the request
	Repeated  Outcome = "repeated"   // the same decision was made before; nothing changed
	Lost      Outcome = "lost"       // another decision was made before
	TooLate   Outcome = "expired"    // nobody decided in time
	Gone      Outcome = "withdrawn"  // nobody needs the answer any more
	Mismatch  Outcome = "mismatch"   // the person confirmed something else than was asked
	WrongKind Outcome = "wrong_kind" // the decision does not answer this kind of question
	Unfit     Outcome = "unfit"      // the answer is not one that the question allows
	// NotAllowed: the request's rule names others. Nothing about the request is told.
	NotAllowed Outcome = "not_allowed"
	Counted    Outcome = "counted"    // a yes of several; the request waits on for the others
	NoComment  Outcome = "no_comment" // the request's rule wants to know why
)

var spellings = map[string]string{
	"approve": events.Approve, "reject": events.Reject,
	"not-happened": events.NotHappened, "give-up": events.GiveUp, "answer": events.Answered,
}

// ParseDecision reads a decision as people and programs write it: "approve" and
// "approved" are the same. Anything else than a person's decision is ErrInvalid.
func ParseDecision(s string) (string, error) {
	if to, ok := spellings[s]; ok {
		s = to
	}
	switch s {
	case events.Approve, events.Reject, events.Happened, events.NotHappened, events.GiveUp, events.Answered:
		return s, nil
	}
	return "", fmt.Errorf("%w: decision is %q, want approve or reject for an action, happened, not_happened or give_up for a doubt, answer for a question", ErrInvalid, s)
}

// Check finds what is wrong with an attempt by itself. Every error is ErrInvalid.
func (a Attempt) Check() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
	}
	if _, err := ParseDecision(a.Decision); err != nil {
		errs = append(errs, err)
	}
	switch {
	case !utf8.ValidString(a.Comment):
		bad("comment is not valid UTF-8")
	case strings.ContainsRune(a.Comment, 0):
		bad("comment contains a NUL character; remove it")
	case utf8.RuneCountInString(a.Comment) > MaxCommentChars:
		bad("comment has %d characters, at most %d are kept; shorten it", utf8.RuneCountInString(a.Comment), MaxCommentChars)
	}
	if a.Result != nil {
		switch {
		case a.Decision != events.Happened && a.Decision != events.Answered:
			bad("a result belongs to the decisions happened and answer only")
		case len(a.Result) > MaxResultBytes:
			bad("result has %d bytes, at most %d are kept", len(a.Result), MaxResultBytes)
		default:
			if _, err := events.Canonical(a.Result); err != nil {
				bad("result: %v", err)
			}
		}
	}
	switch {
	case a.Args == nil:
	case a.Decision != events.Approve:
		bad("other arguments belong to the decision approve only")
	case len(a.Args) > events.EditBytes:
		bad("args have %d bytes, at most %d are sent", len(a.Args), events.EditBytes)
	}
	switch {
	case a.Fields == nil:
	case a.Decision != events.Approve:
		bad("fields are filled in with the decision approve only")
	case len(a.Fields) > events.EditBytes:
		bad("fields have %d bytes, at most %d are sent", len(a.Fields), events.EditBytes)
	}
	if a.Decision == events.Answered && a.Result == nil {
		bad("an answer needs a result: the answer itself, as JSON")
	}
	if a.By == "" {
		bad("nobody decided: the principal is empty")
	}
	return errors.Join(errs...)
}

// Answers reports whether decision answers a question of the given kind.
func Answers(kind, decision string) bool {
	switch decision {
	case events.Approve, events.Reject:
		return kind == events.ApprovalAction
	case events.Happened, events.NotHappened, events.GiveUp:
		return kind == events.ApprovalDoubt
	case events.Answered:
		return kind == events.ApprovalQuestion
	}
	return false
}

func choices(kind string) string {
	switch kind {
	case events.ApprovalDoubt:
		return "happened, not_happened or give_up"
	case events.ApprovalQuestion:
		return "answer, with a result"
	}
	return "approve or reject"
}

// Judge says what becomes of attempt a on request r at now, the database's
// time. It changes nothing: Decided means that the conditional write may be
// tried, and the write has the last word.
func Judge(r Request, a Attempt, now time.Time) Outcome {
	if MayNot(r, a.person()) != "" {
		return NotAllowed
	}
	if !Answers(r.Kind, a.Decision) {
		return WrongKind
	}
	asked := r.Digest
	if a.Edit != nil {
		asked = a.Edit.Digest
	}
	if a.Digest != "" && a.Digest != asked && a.Unfit == "" || a.Digest == "" && r.Rule != nil && a.Decision == events.Approve {
		return Mismatch
	}
	switch r.State {
	case StatePending:
		if r.Late(now) {
			return TooLate
		}
		if r.NeedsComment() && !says(a.Comment) {
			return NoComment
		}
		if a.Unfit != "" || unfilled(r, a) != "" || unfit(r.Question, a.Result) != "" {
			return Unfit
		}
		if a.Decision == events.Approve && r.Quorum() > 1 {
			return r.count(a)
		}
		return Decided
	case events.Expired:
		return TooLate
	case events.Withdrawn:
		return Gone
	case a.Decision:
		if a.Result != nil && !sameJSON(a.Result, r.Result) {
			return Lost
		}
		if !sameEdit(r, a) {
			return Lost
		}
		return Repeated
	}
	return Lost
}

func sameJSON(a, b json.RawMessage) bool {
	ca, errA := events.Canonical(a)
	cb, errB := events.Canonical(b)
	return errA == nil && errB == nil && bytes.Equal(ca, cb)
}
