package trigger

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
)

// MaxReplay bounds one replay of a range.
const MaxReplay = 500

// replayReserve is how much of a request's time a range leaves to its answer.
const replayReserve = 3 * time.Second

// ReplayFilter chooses what a range replays: requests of one webhook with one
// outcome, received from From to before To. Replays themselves are not replayed
// again.
type ReplayFilter struct {
	Webhook  string
	Outcome  string
	From, To time.Time
	After    DeliveryID // continue behind this one
}

// Replay says how to replay.
type Replay struct {
	Namespace, Principal string
	// Force starts a new run also for what has one.
	Force bool
	// Key makes a repeated forced replay the same replay. Empty: each is its own.
	Key string
}

// Replayed is what became of one replay.
type Replayed struct {
	Of DeliveryID // the entry that was replayed
	// ID is the replay's own entry; empty when the run was there already.
	ID                      DeliveryID
	Outcome, Reason, Detail string
	Accepted                Accepted
	// Places names what is wrong with the input.
	Places []Place
}

// Replay takes a logged request again, as if it came now: by the webhook's
// present definition, without its signature, which was checked. A request that
// has its run is answered with it unless forced; a forced one starts a new run
// whose trigger id is "replay/<entry>/...".
//
// What the webhook refuses is a Replayed with its reason; errors are a Refusal
// when there is nothing to replay, and failures.
func (s *Service) Replay(ctx context.Context, id DeliveryID, how Replay) (Replayed, error) {
	entry, err := s.Entry(ctx, how.Namespace, id)
	if err != nil {
		return Replayed{}, err
	}
	if entry.Attempt != nil && entry.Attempt.ReplayOf != "" {
		return s.Replay(ctx, entry.Attempt.ReplayOf, how) // the request itself
	}
	if !how.Force {
		if a, ok := ranAlready(entry); ok {
			return Replayed{Of: id, Outcome: OutcomeDuplicate, Accepted: a}, nil
		}
	}
	a := entry.Attempt
	switch {
	case a == nil && entry.Delivery.Source.Kind != SourceWebhook:
		return Replayed{}, Refuse(CodeNoReplay, "delivery %s came by %s; only requests of webhooks can be replayed", id, entry.Delivery.Source.Kind)
	case a == nil:
		return Replayed{}, Refuse(CodeNoReplay, "the request of delivery %s is older than the log, so its body is gone; start a run with its input instead", id)
	case a.Body == nil:
		return Replayed{}, Refuse(CodeNoReplay, "the body of delivery %s was not kept: %s; have the sender send it again", id, whyNoBody(a))
	}
	return s.replay(ctx, *a, how)
}

// ranAlready is the run that a request has.
func ranAlready(e Entry) (Accepted, bool) {
	switch {
	case e.Delivery != nil:
		return Accepted{RunID: e.Delivery.RunID, DeliveryID: e.Delivery.ID, Repeat: true}, true
	case e.Attempt != nil && e.Attempt.DeliveryID != "": // a signal has no run
		return Accepted{RunID: e.Attempt.RunID, DeliveryID: e.Attempt.DeliveryID, Repeat: true}, true
	}
	return Accepted{}, false
}

func whyNoBody(a *Attempt) string {
	switch {
	case a.Reason == ReasonNotLogged:
		return "the entry stands for many requests"
	case a.BodyBytes > maxKeptBody:
		return fmt.Sprintf("it has %d bytes, and up to %d are kept", a.BodyBytes, maxKeptBody)
	}
	return fmt.Sprintf("the request was rejected (%s) before its signature was good, and what is not signed is not kept", a.Reason)
}

// replay takes a logged request with its body.
func (s *Service) replay(ctx context.Context, old Attempt, how Replay) (Replayed, error) {
	def, err := defined(old.Namespace, old.Webhook, func() (Webhook, error) { return s.definitions.Webhook(ctx, old.Namespace, old.Webhook) })
	if isNotFound(err) {
		return Replayed{}, Refuse(CodeUnknownWebhook, "the webhook %q of delivery %s is gone; apply it again first", old.Webhook, old.ID)
	}
	if err != nil {
		return Replayed{}, fmt.Errorf("read webhook %s: %w", old.Webhook, err)
	}
	provider, ok := s.providers[def.Provider]
	if !ok {
		return Replayed{}, fmt.Errorf("webhook %s: %w: provider %q is not known to this release", def.Name, ErrMisconfigured, def.Provider)
	}
	r := Request{Header: http.Header{}, Query: old.Query, Body: old.Body, At: old.ReceivedAt}
	for name, values := range old.Header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	a, err := newAttempt(def, r)
	if err != nil {
		return Replayed{}, err
	}
	a.ReplayOf, a.Principal, a.EventID, a.rekey = old.ID, how.Principal, old.EventID, how.rekey(old.ID)
	a.Header, a.Query = nil, nil // they are the original's
	answer, err := s.admitAgain(ctx, def, provider, r, a)
	refusal, refused := AsRefusal(err)
	if err != nil && !refused {
		return Replayed{}, err
	}
	told := Answered{}
	if refused {
		told.Code, told.Detail = refusal.Code, refusal.Error()
	}
	s.Log(ctx, a, told)
	out := Replayed{Of: old.ID, ID: a.ID, Outcome: a.Outcome, Reason: a.Reason, Detail: a.Detail, Accepted: answer.Accepted}
	if out.Accepted.RunID == "" { // of a list, the first one's
		out.Accepted.RunID, out.Accepted.DeliveryID = a.RunID, a.DeliveryID
	}
	if refused {
		out.Places = refusal.Places
	}
	return out, nil
}

func (s *Service) admitAgain(ctx context.Context, def Webhook, provider Provider, r Request, a *Attempt) (HookAnswer, error) {
	event, err := readEvent(provider, def, r, def.Check)
	if err != nil {
		return HookAnswer{}, err
	}
	if event.Reply != nil {
		a.End(OutcomeFiltered, ReasonHandshake)
		return HookAnswer{Reply: event.Reply}, nil
	}
	if a.EventID != "" {
		event.ID = a.EventID // its header may be redacted
	}
	return s.admit(ctx, def, r, event, a)
}

// rekey gives a forced replay a key of its own, and a request without one a key
// that makes its second replay a repeat.
func (how Replay) rekey(id DeliveryID) func(string) string {
	own := "replay/" + string(id)
	if how.Force {
		nonce := how.Key
		if nonce == "" {
			nonce = uuid.NewString()
		}
		return func(string) string { return own + "/" + nonce }
	}
	return func(key string) string {
		if key == "" {
			return own
		}
		return key
	}
}

// RangeReplayed is what became of the replay of a range.
type RangeReplayed struct {
	Items []Replayed
	// After, when set, is where to continue: there is more.
	After DeliveryID
}

// ReplayRange replays what f chooses, the oldest first, up to limit entries and
// as long as ctx's deadline allows. With dry it only says what it would replay.
// An entry that cannot be replayed stops nothing.
func (s *Service) ReplayRange(ctx context.Context, f ReplayFilter, how Replay, limit int, dry bool) (RangeReplayed, error) {
	list, err := s.store.ReplayableAttempts(ctx, how.Namespace, f, limit+1)
	if err != nil {
		return RangeReplayed{}, fmt.Errorf("list deliveries to replay: %w", err)
	}
	out := RangeReplayed{Items: []Replayed{}}
	more := len(list) > limit
	for i, a := range list[:min(limit, len(list))] {
		if until, ok := ctx.Deadline(); ok && time.Until(until) < replayReserve && i > 0 {
			more = true
			break
		}
		done := Replayed{Of: a.ID, Outcome: a.Outcome, Reason: a.Reason, Accepted: Accepted{RunID: a.RunID, DeliveryID: a.DeliveryID}}
		if !dry {
			done, err = s.Replay(ctx, a.ID, how)
			switch refusal, refused := AsRefusal(err); {
			case refused:
				done = Replayed{Of: a.ID, Outcome: OutcomeRejected, Reason: refusal.Code, Detail: refusal.Message}
			case err != nil && i == 0:
				return out, err
			case err != nil: // the rest is for the next call, which begins with the failure
				out.After = out.Items[i-1].Of
				return out, nil
			}
		}
		out.Items = append(out.Items, done)
	}
	if n := len(out.Items); more && n > 0 {
		out.After = out.Items[n-1].Of
	}
	return out, nil
}

// TestRequest signs a request of a webhook as its sender does, with the
// webhook's first secret. It sends nothing.
func (s *Service) TestRequest(ctx context.Context, namespace, name string, r Request) (Request, error) {
	def, err := defined(namespace, name, func() (Webhook, error) { return s.definitions.Webhook(ctx, namespace, name) })
	if isNotFound(err) {
		return Request{}, Refuse(CodeUnknownWebhook, "there is no webhook %q in the namespace %s", name, namespace)
	}
	if err != nil {
		return Request{}, fmt.Errorf("read webhook %s: %w", name, err)
	}
	provider, check, err := s.provider(def)
	if err != nil {
		return Request{}, Refuse(CodeNoTest, "%v", err) // who tests it may know why
	}
	signer, ok := provider.(Signer)
	if !ok {
		return Request{}, Refuse(CodeNoTest, "requests of the provider %s cannot be signed here; send one from there", def.Provider)
	}
	if err := signer.Sign(&r, check, "test-"+strings.ReplaceAll(uuid.NewString(), "-", "")); err != nil {
		return Request{}, Refuse(CodeNoTest, "webhook %s: %w", name, err)
	}
	return r, nil
}

func isNotFound(err error) bool { return errors.Is(err, ErrNotFound) }
