package approvals

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Defaults of an ask that names none, and the longest time that is honoured.
const (
	DefaultExpiry   = 72 * time.Hour
	DefaultValidity = 24 * time.Hour
	maxPeriod       = 10 * 365 * 24 * time.Hour
)

// StatePending is the only state in which a request can still change. The
// others are the decisions of pkg/events.
const StatePending = "pending"

// Request is one question to a person. Times are the database's, UTC; a zero
// time has not come.
type Request struct {
	ID         events.ApprovalID
	Namespace  string
	Kind       string // events.ApprovalAction, ApprovalDoubt or ApprovalQuestion
	RunID      events.RunID
	CallID     events.CallID
	Agent      string
	Tool       string
	ToolDigest events.Digest
	Args       json.RawMessage
	Digest     events.Digest // what a yes is bound to
	Epoch      int64         // of the effect that a doubt is about
	Key        string
	Summary    string
	Preview    string // what the tool's template makes of Args, one line fit to show; empty for none
	Labels     map[string]string
	Question   *events.Question     // with events.ApprovalQuestion
	Channel    string               // where people are told and may decide; empty for none
	Rule       *events.DecisionRule // who may decide, as it was asked; nil: every approver
	Policy     string               // what Digest covers, when it is more than the tool's own
	Requester  string               // the principal that started the run; empty for none

	Hidden bool // what it is about was taken out; see SeenBy

	State     string
	Decision  string // State once it is not pending
	DecidedBy string // empty for an expiry and a withdrawal
	Door      string // "api"
	Comment   string
	Result    json.RawMessage // with events.Happened and events.Answered
	Votes     []Vote          // with a rule that wants several
	Edit      *Edit           // what a person made of the arguments; nil: the call was approved as asked

	CreatedAt  time.Time
	ExpiresAt  time.Time
	DecidedAt  time.Time
	ValidUntil time.Time // zero unless a person decided

	DeferredUntil time.Time // it is left out of the inbox until then; zero: it is not
	DeferredBy    string

	RemindAt time.Time // its channel is told again then; zero: it is not
	Overdue  bool      // it waits although its time is over; see Keeps
	Reminded int       // how many reminders there were
	// Escalated is how many steps of the rule have come; EscalateAt is when the next
	// one does, zero for none.
	Escalated  int
	EscalateAt time.Time

	// WithdrawReason is why nobody needs the answer any more.
	WithdrawReason string
	// UnusedAt is set when a withdrawal came after a person had decided: the
	// decision stands in the record and nothing runs because of it.
	UnusedAt     time.Time
	UnusedReason string

	AnnouncedAt   time.Time
	AnnounceCount int
	LandedAt      time.Time // the runner has committed the decision
}

// Title is what people read of it first: the preview, else the summary.
func (r Request) Title() string { return cmp.Or(r.Preview, r.Summary) }

// Keeps reports whether r waits on when its time is over.
func (r Request) Keeps() bool { return r.Rule != nil && r.Rule.AtExpiry == events.AtExpiryKeep }

// Late reports whether the time of r is over at now, so that nobody decides it any more.
func (r Request) Late(now time.Time) bool { return !now.Before(r.ExpiresAt) && !r.Keeps() }

// Ended reports whether nothing can change the answer any more.
func (r Request) Ended() bool { return r.State != StatePending }

const causePrefix = "decision:"

// Cause is the logical id of the decision, the same in every announcement.
func (r Request) Cause() string { return causePrefix + string(r.ID) }

// DecisionOf returns the request whose decision has the given cause.
func DecisionOf(cause string) events.ApprovalID {
	return events.ApprovalID(strings.TrimPrefix(cause, causePrefix))
}
