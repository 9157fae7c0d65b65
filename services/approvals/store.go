package approvals

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Ask is a request as the runner asks it.
type Ask struct {
	Request
	Cause        string // logical id of the message
	ExpiresAfter time.Duration
	ValidFor     time.Duration
	ForkOf       events.RunID // the run whose past the asking run has; no grant allows it
}

// Withdrawal closes a request that nobody needs any more.
type Withdrawal struct {
	ID        events.ApprovalID
	Namespace string
	RunID     events.RunID
	Reason    string
}

// Inbox keeps what arrives as messages.
type Inbox interface {
	// Ask opens the request unless it is known, and returns it as it stands. A
	// withdrawal that came first wins: the request is then withdrawn from the
	// start. known reports that an earlier ask had opened it. Idempotent.
	Ask(ctx context.Context, a Ask) (r Request, known bool, err error)
	// Withdraw ends a pending request, marks a person's decision as unused, or
	// remembers the withdrawal for an ask that has not come yet. Idempotent.
	Withdraw(ctx context.Context, w Withdrawal) error
	// Notice keeps what people are to be told. Idempotent.
	Notice(ctx context.Context, n events.Notice) error
	// Reject keeps a message that can never be handled.
	Reject(ctx context.Context, m events.Received, code string, err error) error
}

// Decider ends requests.
type Decider interface {
	// Decide makes one attempt and stores it with its outcome. It returns the
	// request as it stands afterwards. ErrNotFound when the namespace has none.
	Decide(ctx context.Context, a Attempt) (Request, Outcome, error)
	// Defer puts a request off and stores what is to be told then. ErrNotFound when
	// the namespace has none.
	Defer(ctx context.Context, d Deferral) (Request, Outcome, error)
	// Expire ends up to limit requests whose time has passed by the database's
	// clock and returns them. Several processes may call it at once.
	Expire(ctx context.Context, limit int) ([]Request, error)
	// Remind stores what is to be told again of up to limit requests whose time for it
	// has come by the database's clock, and returns how many there were. Several
	// processes may call it at once: each reminder is stored once.
	Remind(ctx context.Context, limit int) (int, error)
	// Escalate takes the next step of up to limit requests whose time for it has come
	// by the database's clock, stores what is to be told, and returns how many there
	// were. Several processes may call it at once: each step is taken once.
	Escalate(ctx context.Context, limit int) (int, error)
}

// Filter narrows a list. Empty fields do not narrow.
type Filter struct {
	Namespace string // required
	State     string
	Kind      string
	RunID     events.RunID
	Deferred  string // what was put off: DeferredHide, DeferredOnly, or empty for all
	Limit     int
	// Before continues a list after the request that it names.
	Before *Position
}

// What a list shows of requests that were put off.
const (
	DeferredHide = "hide"
	DeferredOnly = "only"
)

// Position is a place in a list, newest first.
type Position struct {
	CreatedAt time.Time         `json:"t"`
	ID        events.ApprovalID `json:"i"`
}

// NoticeFilter narrows a list of notices. Empty fields do not narrow.
type NoticeFilter struct {
	Namespace string // required
	State     string
	Channel   string
	RunID     events.RunID
	Limit     int
	// Before continues a list after the notice that it names.
	Before *NoticePosition
}

// NoticePosition is a place in a list of notices, newest first.
type NoticePosition struct {
	CreatedAt time.Time       `json:"t"`
	ID        events.NoticeID `json:"i"`
}

// Reader shows requests and notices.
type Reader interface {
	Get(ctx context.Context, namespace string, id events.ApprovalID) (Request, error) // ErrNotFound
	List(ctx context.Context, f Filter) ([]Request, error)
	Notices(ctx context.Context, f NoticeFilter) ([]Notice, error)
	// Waiting counts the requests of all namespaces that wait for a person.
	Waiting(ctx context.Context) (Waiting, error)
}

// Announcer tells the runner.
type Announcer interface {
	// Publish sends one message and waits until the stream has stored it.
	Publish(ctx context.Context, m events.Message) error
	// Kick says that a decision has been committed and waits to be published.
	// It does not block.
	Kick()
}

// Announcement is the message that tells the runner how r ended. Every one has
// the same logical id; msgID differs, because the stream drops a message id
// that it remembers.
func Announcement(r Request, msgID string) events.Message {
	decision := events.ApprovalDecision{
		ApprovalID: r.ID, Kind: r.Kind, RunID: r.RunID, CallID: r.CallID,
		Decision: r.Decision, Digest: r.Bound(), By: r.DecidedBy, Comment: r.Comment, Result: r.Result,
		DecidedAt: r.DecidedAt, ValidUntil: r.ValidUntil,
	}
	if r.Edit != nil {
		decision.Args = r.Edit.Args
	}
	body, err := events.Marshal(decision)
	if err != nil {
		panic("approvals: encode decision: " + err.Error()) // Result was checked to be JSON
	}
	return events.Message{
		Subject: events.RunSubject(r.RunID, events.RunApprovalDecided),
		MsgID:   msgID, ID: r.Cause(), Source: "/services/approvals", Type: events.TypeApprovalDecided,
		About: string(r.ID), Time: r.DecidedAt, Namespace: r.Namespace, Data: body,
	}
}
