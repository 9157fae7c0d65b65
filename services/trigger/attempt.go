package trigger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Outcomes of a request at a known webhook.
const (
	OutcomeAccepted  = "accepted"  // it made a delivery
	OutcomeDuplicate = "duplicate" // the delivery was there already
	OutcomeFiltered  = "filtered"  // it is good, and is not to make one: a filter, a handshake
	OutcomeHeld      = "held"      // it made a delivery that waits until its webhook goes on
	OutcomeRejected  = "rejected"  // the reason says why
	OutcomeSignalled = "signalled" // it made a signal to a run that waits, or will
)

// Outcomes lists the outcomes.
func Outcomes() []string {
	return []string{OutcomeAccepted, OutcomeDuplicate, OutcomeFiltered, OutcomeHeld, OutcomeRejected, OutcomeSignalled}
}

// Reasons of the log that are not the code of a Refusal. They are stable.
const (
	ReasonUnsigned  = "missing_signature"
	ReasonHandshake = "handshake"  // a ping or a challenge was answered
	ReasonNotLogged = "not_logged" // stands for Count rejected requests that came too fast to be logged
)

// reasons gives the log's word for what a request was refused for; a code that
// is not here is its own reason.
var reasons = map[string]string{
	CodeStale:        "stale_timestamp",
	CodeTooLarge:     "too_large",
	CodeInvalidJSON:  "bad_body",
	CodeInvalidText:  "bad_body",
	CodeInvalidInput: "schema",
	CodeMapping:      "mapping",
}

// Limits of what the log keeps of one request.
const (
	maxKeptBody   = 1 << 20 // bytes; of a larger one size and digest are kept
	maxKeptDetail = 500     // bytes
)

// Attempt is one request at a known webhook, and what became of it: an entry of
// the delivery log.
type Attempt struct {
	// ID is also the delivery's when the attempt makes one.
	ID                 DeliveryID
	Namespace, Webhook string
	Version            events.Digest // of the webhook
	Outcome, Reason    string
	Detail             string // for people
	Status             int    // answered
	ReceivedAt         time.Time
	Took               time.Duration // from the request's head to its outcome
	Remote             string        // the peer's address
	ContentType        string
	// Header and Query are redacted. What was not verified keeps a few headers
	// and no query.
	Header, Query map[string][]string
	BodyBytes     int64
	BodyDigest    events.Digest // empty when the body was not read to its end
	// Body is nil when it is not kept: it was not verified, or is too large.
	Body       []byte
	EventID    string // the provider's id
	Key        string // makes a repeat a repeat
	RunID      events.RunID
	DeliveryID DeliveryID // of the run's delivery or of the signal, for a duplicate that of the first
	ReplayOf   DeliveryID // the attempt that was replayed, if this is a replay
	Principal  string     // who replayed
	Count      int64      // how many requests the entry stands for; 0 means one

	began    time.Time
	provider string // of the webhook
	request  Request
	stored   bool // it is in the log
	believed bool // its signature is good
	// rekey, of a replay, changes the key that the mapping gave.
	rekey func(string) string
}

// newAttempt begins the entry of a request.
func newAttempt(def Webhook, r Request) (*Attempt, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("mint delivery id: %w", err)
	}
	began := r.Began
	if began.IsZero() {
		began = time.Now()
	}
	return &Attempt{
		ID: DeliveryID(id.String()), Namespace: def.Namespace, Webhook: def.Name, Version: def.Digest,
		ReceivedAt: began, Remote: r.Remote, ContentType: keptText(r.Header.Get("Content-Type"), maxKeptValue),
		BodyBytes: int64(len(r.Body)), BodyDigest: events.DigestOf(r.Body),
		began: began, provider: def.Provider, request: r,
	}, nil
}

// End says what became of the attempt. The first word counts.
func (a *Attempt) End(outcome, reason string) {
	if a != nil && a.Outcome == "" {
		a.Outcome, a.Reason = outcome, reason
	}
}

// believe is called when the request's signature is good: only then its content
// enters the log.
func (a *Attempt) believe(hide redaction) {
	a.believed = true
	a.Header = redactHeader(a.request.Header, hide)
	a.Query = redactQuery(a.request.Query, hide)
	if a.ReplayOf == "" && len(a.request.Body) <= maxKeptBody {
		a.Body = a.request.Body
	}
}

// accepted is the entry if d is committed, which it is written with.
func (a *Attempt) accepted(d Delivery) *Attempt {
	done := *a
	done.Outcome, done.Status = OutcomeAccepted, HookAccepted
	if d.Held {
		done.Outcome = OutcomeHeld
	}
	done.Key, done.RunID, done.DeliveryID = d.Key, d.RunID, d.ID
	done.Took = time.Since(a.began)
	done.stored = true
	return &done
}

// repeats ends the attempt as a repeat of an earlier delivery.
func (a *Attempt) repeats(first Accepted, key string) {
	a.End(OutcomeDuplicate, "")
	a.Key, a.RunID, a.DeliveryID = deliveryKey(key), first.RunID, first.DeliveryID
}

// HookAccepted is the status that a sender gets for what made a delivery.
const HookAccepted = 202

// Answered is what the sender was told.
type Answered struct {
	Status       int
	Code, Detail string // of a problem
}

// Log keeps an attempt that made no delivery; one that did is in the log already,
// by the delivery's own transaction. It reports whether the entry is there; a log
// that cannot be written changes no answer. What was refused only for now is not
// an outcome, and is not kept.
func (s *Service) Log(ctx context.Context, a *Attempt, told Answered) bool {
	if a.stored {
		s.metrics.request(ctx, a.provider, a.Outcome, a.Reason)
		return true
	}
	if told.Code == codeUnavailable {
		s.metrics.request(ctx, a.provider, outcomeRefused, "")
		return false
	}
	reason := told.Code
	if r, ok := reasons[reason]; ok {
		reason = r
	}
	a.End(OutcomeRejected, reason)
	s.metrics.request(ctx, a.provider, a.Outcome, a.Reason)
	a.Status, a.Took = told.Status, time.Since(a.began)
	a.Detail = keptText(told.Detail, maxKeptDetail)
	if !a.believed && a.ReplayOf == "" {
		a.Header = redactHeader(a.request.Header, redaction{brief: true})
	}
	s.attempts.keep(ctx, a)
	return a.stored
}

// Unread begins the entry of a request whose body could not be read; size is
// what is known of it. It is nil for an unknown webhook.
func (s *Service) Unread(ctx context.Context, namespace, name string, r Request, size int64) *Attempt {
	def, err := defined(namespace, name, func() (Webhook, error) { return s.definitions.Webhook(ctx, namespace, name) })
	if isNotFound(err) {
		s.metrics.request(ctx, unknownWebhook, OutcomeRejected, CodeUnknownWebhook)
	}
	if err != nil {
		return nil
	}
	a, err := newAttempt(def, r)
	if err != nil {
		return nil
	}
	a.BodyBytes, a.BodyDigest = max(size, 0), ""
	return a
}

// codeUnavailable is the door's code of a part that is away for a while.
const codeUnavailable = "unavailable"

// keptText is s as text that Postgres can store, cut to n bytes.
func keptText(s string, n int) string {
	if len(s) > n {
		s = s[:n] + "…"
	}
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}
