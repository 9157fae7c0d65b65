package trigger

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Accept commits a start and returns its run id. When it returns without an
// error the start takes effect exactly once, whatever happens to this process.
// The same key again is answered with the same run id.
//
// It returns a Refusal for what no retry can make good.
func (s *Service) Accept(ctx context.Context, st Start) (a Accepted, err error) {
	defer func() {
		if !errors.Is(err, ErrSuperseded) { // it is taken anew
			s.metrics.start(ctx, st.Source.Kind, a, err)
		}
	}()
	d, err := s.prepare(ctx, st)
	if err != nil {
		// A repeat must be answered as before, also when the agent is gone or its
		// schema has changed since.
		if _, refused := AsRefusal(err); refused && st.Key != "" {
			found, ferr := s.store.Find(ctx, st.Namespace, st.Source, deliveryKey(st.Key))
			switch {
			case ferr == nil:
				return Repeat(st, found)
			case !errors.Is(ferr, ErrNotFound):
				return Accepted{}, ferr
			}
		}
		return Accepted{}, err
	}
	switch found, err := s.enter(ctx, st, d); {
	case err != nil:
		return Accepted{}, err
	case found != nil:
		return Repeat(st, *found)
	}
	stored, inserted, err := s.store.Insert(ctx, d)
	if err != nil {
		return Accepted{}, fmt.Errorf("accept start: %w", err)
	}
	if !inserted {
		s.giveBack(ctx, st, d)
		return Repeat(st, stored)
	}
	if d.Attempt != nil {
		*st.Attempt = *d.Attempt
	}
	if err := failpoint.Hit("trigger.committed", string(d.RunID)); err != nil {
		return Accepted{}, err
	}
	s.announce(stored)
	s.log.DebugContext(ctx, "start accepted", telemetry.KeyRunID, stored.RunID, telemetry.KeyNamespace, stored.Namespace,
		"source", stored.Source.Kind, "target", stored.Ref.Name)
	return Accepted{RunID: stored.RunID, DeliveryID: stored.ID}, nil
}

// prepare resolves and checks a start. It writes nothing.
func (s *Service) prepare(ctx context.Context, st Start) (Delivery, error) {
	target, err := defined(st.Namespace, st.Name, func() (Target, error) {
		if st.Aimed != nil {
			return *st.Aimed, nil
		}
		return s.definitions.Target(ctx, st.Namespace, st.Kind, st.Name)
	})
	if errors.Is(err, ErrNotFound) {
		return Delivery{}, Refuse(CodeUnknownTarget, "there is no %s %q in the namespace %s; apply it first", st.Kind, st.Name, st.Namespace)
	}
	if err != nil {
		return Delivery{}, fmt.Errorf("resolve %s %s: %w", st.Kind, st.Name, err)
	}
	if err := checkLabels(st.Labels); err != nil {
		return Delivery{}, err
	}
	if err := checkInput(target, st.Input, s.cfg.MaxBody); err != nil {
		return Delivery{}, err
	}
	if err := checkCallback(target, st.Callback); err != nil {
		return Delivery{}, err
	}
	if err := errors.Join(checkDeadline(st.Deadline), checkPriority(st.Priority)); err != nil {
		return Delivery{}, err
	}
	st.Key = deliveryKey(st.Key)
	return newDelivery(st, target.Ref, telemetry.TraceParent(ctx))
}

// announce gives the relay what was just stored. What is held waits; what is
// large must be copied first, which is the relay's.
func (s *Service) announce(d Delivery) {
	if d.Held {
		return
	}
	if len(d.Input) <= events.MaxInline {
		if m, err := StartMessage(d); err == nil {
			s.relay.Offer(m)
			return
		}
	}
	s.relay.Kick()
}
