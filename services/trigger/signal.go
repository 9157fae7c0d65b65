package trigger

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// States of a signal.
const (
	SignalKept    = "kept"    // no run waits for it
	SignalSent    = "sent"    // on its way to a run that waits
	SignalTaken   = "taken"   // it is the result of that run's call
	SignalExpired = "expired" // no run waited for it in time
)

// SignalStates lists the states.
func SignalStates() []string { return []string{SignalKept, SignalSent, SignalTaken, SignalExpired} }

// Signal is something that happened outside, for the one run that waits for its
// name and key. The row is the promise behind a 2xx: it is taken by one wait, or
// expires where everybody can see it.
type Signal struct {
	ID          DeliveryID // of the request's entry in the log, when it came to a webhook
	Namespace   string
	Name, Key   string
	Data        json.RawMessage
	Source      Source        // SourceWebhook or SourceAPI
	Dedupe      string        // makes a repeat a repeat; empty: each is its own
	Digest      events.Digest // of the request as it was sent
	Strict      bool          // another request under the same Dedupe is refused
	Principal   string
	TraceParent string
	KeepFor     time.Duration // how long it waits for a run that waits
	Held        bool          // kept back while its webhook is paused
	Attempt     *Attempt      // only on its way into the store
	State       string
	RunID       events.RunID // of the wait that it was sent to
	CallID      events.CallID
	Tries       int // waits that it was sent to
	Late        int // of these, how many had ended when it came
	ReceivedAt  time.Time
	ExpiresAt   time.Time
	TakenAt     *time.Time
}

// SignalFilter narrows a list of signals. Zero fields do not narrow.
type SignalFilter struct{ State, Name, Key string }

// Signals keeps signals until a run has taken them.
type Signals interface {
	// InsertSignal commits x, or finds the one that has its Dedupe already. The
	// second result reports which.
	InsertSignal(ctx context.Context, x Signal) (stored Signal, inserted bool, err error)
	// FindSignal returns the signal with a Dedupe, ErrNotFound without one.
	FindSignal(ctx context.Context, namespace string, s Source, dedupe string) (Signal, error)
	// SweepSignals removes at most limit signals that were taken or expired longer
	// than age ago, and says how many.
	SweepSignals(ctx context.Context, age time.Duration, limit int) (int, error)
	// ListSignals lists a namespace's signals without their data, newest first.
	ListSignals(ctx context.Context, namespace string, f SignalFilter, before DeliveryID, limit int) ([]Signal, error)
}

// Signal commits a signal. When it returns without an error the signal is taken
// by at most one wait, and kept until it is or expires, whatever happens to this
// process. It returns a Refusal for what no retry can make good.
func (s *Service) Signal(ctx context.Context, x Signal, l Limits) (Accepted, error) {
	if err := checkSignal(x); err != nil {
		return Accepted{}, err
	}
	x.Dedupe = deliveryKey(x.Dedupe)
	x.TraceParent = telemetry.TraceParent(ctx)
	id, err := uuid.NewV7()
	if err != nil {
		return Accepted{}, fmt.Errorf("mint signal id: %w", err)
	}
	x.ID = DeliveryID(id.String())
	entry := x.Attempt
	if x.Attempt = nil; entry != nil && entry.Outcome == "" {
		x.ID = entry.ID
		x.Attempt = entry.signalled(x)
	}
	if found, err := s.enterSignal(ctx, x, l); err != nil {
		return Accepted{}, err
	} else if found != nil {
		return repeatSignal(x, *found)
	}
	stored, inserted, err := s.store.InsertSignal(ctx, x)
	if err != nil {
		return Accepted{}, fmt.Errorf("keep signal: %w", err)
	}
	if !inserted {
		return repeatSignal(x, stored)
	}
	if x.Attempt != nil {
		*entry = *x.Attempt
	}
	if err := failpoint.Hit("trigger.signal_kept", string(x.ID)); err != nil {
		return Accepted{}, err
	}
	if s.signals != nil {
		s.signals.Kick()
	}
	s.log.InfoContext(ctx, "signal kept", "signal", x.ID, telemetry.KeyNamespace, x.Namespace, "source", x.Source.Kind, "name", x.Name)
	return Accepted{DeliveryID: x.ID}, nil
}

// checkSignal refuses what a run could not be handed unchanged.
func checkSignal(x Signal) error {
	if !spec.ValidName(x.Name) {
		return Refuse(CodeInvalidSignal, "the signal %.70q is not a name: 1 to 62 of a-z 0-9 - _, starting with a letter or digit", x.Name)
	}
	if err := CheckText(x.Key); err != nil {
		return Refuse(CodeInvalidSignal, "the signal's key: %w", err)
	}
	if err := spec.CheckSignalKey(x.Key); err != nil {
		return Refuse(CodeInvalidSignal, "signal %s: %w; send the key that the waiting run was given", x.Name, err)
	}
	if len(x.Data) > events.SignalDataBytes {
		return Refuse(CodeTooLarge, "data: it has %d bytes, a signal carries at most %d; send a reference instead", len(x.Data), events.SignalDataBytes)
	}
	return CheckJSON("data", x.Data)
}

// enterSignal asks the rate limit of a signal's webhook; a repeat costs nothing.
func (s *Service) enterSignal(ctx context.Context, x Signal, l Limits) (found *Signal, err error) {
	if l.PerMinute == 0 {
		return nil, nil
	}
	if x.Dedupe != "" {
		switch before, err := s.store.FindSignal(ctx, x.Namespace, x.Source, x.Dedupe); {
		case err == nil:
			return &before, nil
		case !isNotFound(err):
			return nil, err
		}
	}
	answer, err := s.store.Enter(ctx, HookName{x.Namespace, x.Source.Name}, "", Limits{PerMinute: l.PerMinute, Burst: l.Burst})
	if err != nil {
		return nil, fmt.Errorf("ask the limits of webhook %s: %w", x.Source.Name, err)
	}
	if answer.Wait > 0 {
		r := Refuse(CodeRateLimited, "webhook %s takes at most %d signals a minute, %d at once; send it again later", x.Source.Name, l.PerMinute, l.Burst)
		r.After = answer.Wait
		return nil, r
	}
	return nil, nil
}

func repeatSignal(x, found Signal) (Accepted, error) {
	if x.Strict && x.Digest != found.Digest {
		return Accepted{}, Refuse(CodeKeyReused, "%w: the key %.60q sent signal %s; send the same request, or another key", ErrKeyReused, x.Dedupe, found.ID)
	}
	return Accepted{DeliveryID: found.ID, Repeat: true}, nil
}

// admitSignal makes a signal of a webhook's mapped event.
func (s *Service) admitSignal(ctx context.Context, def Webhook, st Start, values map[string]json.RawMessage) (HookAnswer, string, error) {
	key, err := spec.SignalKey(def.Signal.Key, values)
	if err != nil {
		return HookAnswer{}, "", Refuse(CodeMapping, "webhook %s: signal.key: %w", def.Name, err)
	}
	data, err := def.Signal.Data.Render(values)
	if err != nil {
		return HookAnswer{}, "", Refuse(CodeMapping, "webhook %s: signal.data: %w; the request does not have what the webhook's template names", def.Name, err)
	}
	accepted, err := s.Signal(ctx, Signal{
		Namespace: st.Namespace, Name: def.Signal.Name, Key: key, Data: data, Source: st.Source, Dedupe: st.Key, Digest: st.Digest,
		Principal: SourceWebhook + "/" + def.Name, KeepFor: def.Signal.KeepFor.Std(), Held: st.Held, Attempt: st.Attempt,
	}, st.Limits)
	return HookAnswer{Accepted: accepted, Signal: true}, st.Key, err
}

// ListSignals lists signals, newest first.
func (s *Service) ListSignals(ctx context.Context, namespace string, f SignalFilter, before DeliveryID, limit int) ([]Signal, error) {
	return s.store.ListSignals(ctx, namespace, f, before, limit)
}

// signalled is the entry of a request if its signal x is committed, which it is
// written with.
func (a *Attempt) signalled(x Signal) *Attempt {
	done := *a
	done.Outcome, done.Status = OutcomeSignalled, HookAccepted
	if x.Held {
		done.Outcome = OutcomeHeld
	}
	done.Key, done.DeliveryID = x.Dedupe, x.ID
	done.Detail = keptText(fmt.Sprintf("%s signal %s, key %q", a.Detail, x.Name, x.Key), maxKeptDetail)
	done.Detail = strings.TrimSpace(done.Detail)
	done.Took = time.Since(a.began)
	done.stored = true
	return &done
}

// SignalCause is the logical id of a signal on its way to the wait number tries:
// a run records one id once, so each wait gets its own.
func SignalCause(id DeliveryID, tries int) string { return fmt.Sprintf("signal:%s-%d", id, tries) }

// SignalMessage is what the relay announces for a signal that was given to a
// wait. It is a pure function of the row.
func SignalMessage(x Signal) (events.Message, error) {
	cause := SignalCause(x.ID, x.Tries)
	data, err := events.Marshal(events.Signal{
		ID: strings.TrimPrefix(cause, "signal:"), RunID: x.RunID, Name: x.Name, Key: x.Key, CallID: x.CallID, Data: x.Data, Principal: x.Principal,
	})
	if err != nil {
		return events.Message{}, fmt.Errorf("encode signal %s: %w", x.ID, err)
	}
	return events.Message{
		Subject:     events.RunSubject(x.RunID, events.RunSignal),
		ID:          cause,
		Source:      source,
		Type:        events.TypeSignalRun,
		About:       string(x.RunID),
		Time:        x.ReceivedAt.UTC(),
		Namespace:   x.Namespace,
		TraceParent: x.TraceParent,
		Data:        data,
	}, nil
}
