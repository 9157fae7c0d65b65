package approvals

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Handle takes one message of APPROVALS. Repeats are harmless: an ask for a
// request that has ended is answered with the decision again, under a fresh
// message id; one for a pending request only proves that it is known.
func (s *Service) Handle(ctx context.Context, m events.Received) error {
	switch m.Type {
	case events.TypeAskApproval:
		return s.ask(ctx, m)
	case events.TypeWithdraw:
		return s.withdraw(ctx, m)
	case events.TypeNotify:
		return s.notice(ctx, m)
	}
	return fault.Terminal("unknown_type", fmt.Errorf("approvals cannot handle messages of type %q", m.Type))
}

func (s *Service) ask(ctx context.Context, m events.Received) error {
	var b events.AskApproval
	if err := events.Decode(m.Message, &b); err != nil {
		return fault.Terminal("decode", err)
	}
	a, err := AskOf(m.ID, b)
	if err != nil {
		return fault.Terminal("invalid", fmt.Errorf("ask %s: %w", m.ID, err))
	}
	r, known, err := s.inbox.Ask(ctx, a)
	if errors.Is(err, ErrRunDeleted) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open approval %s: %w", a.ID, err)
	}
	if !known {
		s.metrics.opened(ctx, r.Kind)
	}
	if !known && r.Door == DoorGrant {
		s.announce.Kick()
		s.log.InfoContext(ctx, "approved by a grant", telemetry.KeyApprovalID, r.ID, telemetry.KeyRunID, r.RunID, telemetry.KeyPrincipal, r.DecidedBy)
	}
	if !known && r.Channel != "" {
		s.notifier.Kick()
	}
	if !known || !r.Ended() {
		return nil
	}
	again := Announcement(r, fmt.Sprintf("%s:a%d", r.Cause(), m.StreamSeq))
	again.TraceParent = m.TraceParent
	if err := s.announce.Publish(ctx, again); err != nil {
		return fmt.Errorf("announce decision of approval %s again: %w", r.ID, err)
	}
	return nil
}

// AskOf reads an ask as the runner sends it, under the logical id of its message.
// The error joins everything that no retry can make good.
func AskOf(cause string, b events.AskApproval) (Ask, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !events.ValidToken(string(b.ApprovalID)) {
		bad("approval_id %.150q is not a valid id", b.ApprovalID)
	}
	if !b.RunID.Valid() {
		bad("run_id %.150q is not a valid id", b.RunID)
	}
	if !events.ValidToken(string(b.CallID)) {
		bad("call_id %.150q is not a valid id", b.CallID)
	}
	if b.Namespace == "" {
		bad("namespace is empty")
	}
	if b.Kind != events.ApprovalAction && b.Kind != events.ApprovalDoubt && b.Kind != events.ApprovalQuestion {
		bad("kind is %q, want %s, %s or %s", b.Kind, events.ApprovalAction, events.ApprovalDoubt, events.ApprovalQuestion)
	}
	switch asks := b.Kind == events.ApprovalQuestion; {
	case asks != (b.Question != nil):
		bad("a question belongs to the kind %s, and to no other", events.ApprovalQuestion)
	case asks:
		if err := checkQuestion(b.Question); err != nil {
			errs = append(errs, err)
		}
	}
	args := b.Args
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if _, err := events.Canonical(args); err != nil {
		bad("args: %w", err)
	}
	if b.Rule != nil {
		if raw, err := events.Marshal(b.Rule); err != nil || len(raw) > maxRuleBytes {
			bad("rule has %d bytes, at most %d are kept (%w)", len(raw), maxRuleBytes, err)
		}
		if !validReminders(b.Rule.RemindMs) {
			bad("rule: the reminders %.200s are not at most %d times in ascending order", fmt.Sprint(b.Rule.RemindMs), maxReminders)
		}
		if b.Rule.Calendar != nil {
			if _, err := spec.NewClock(b.Rule.Calendar); err != nil {
				bad("rule: %w", err)
			}
		}
		if !validSteps(b.Rule) {
			bad("rule: the escalation is not at most %d steps in the order of their times, about deciders of the rule", maxSteps)
		}
	}
	texts := []string{b.Namespace, b.Agent, b.Tool, string(b.ToolDigest), string(b.Digest), b.Key, b.Summary, b.Preview, b.Channel, b.Policy, b.Requester}
	for k, v := range b.Labels {
		texts = append(texts, k, v)
	}
	for _, t := range texts {
		if strings.ContainsRune(t, 0) {
			bad("a text contains a NUL character: %.80q", t)
		}
	}
	return Ask{
		Request: Request{
			ID: b.ApprovalID, Namespace: b.Namespace, Kind: b.Kind, RunID: b.RunID, CallID: b.CallID,
			Agent: b.Agent, Tool: b.Tool, ToolDigest: b.ToolDigest, Args: args, Digest: b.Digest,
			Epoch: b.Epoch, Key: b.Key, Summary: b.Summary, Preview: previewOf(b.Preview), Labels: b.Labels, Question: b.Question, Channel: b.Channel,
			Rule: b.Rule, Policy: b.Policy, Requester: b.Requester,
		},
		Cause:        cause,
		ForkOf:       b.ForkOf,
		ExpiresAfter: period(b.ExpiresAfterMs, DefaultExpiry),
		ValidFor:     period(b.ValidForMs, DefaultValidity),
	}, errors.Join(errs...)
}

// maxRuleBytes bounds who may decide, as JSON.
const maxRuleBytes = 128 << 10

// period turns milliseconds of the wire into a duration: zero is the default,
// and what no calendar can hold is the longest that is honoured.
func period(ms int64, byDefault time.Duration) time.Duration {
	ms = cmp.Or(ms, byDefault.Milliseconds())
	return time.Duration(max(0, min(ms, maxPeriod.Milliseconds()))) * time.Millisecond
}

func (s *Service) withdraw(ctx context.Context, m events.Received) error {
	var b events.WithdrawApproval
	if err := events.Decode(m.Message, &b); err != nil {
		return fault.Terminal("decode", err)
	}
	if !events.ValidToken(string(b.ApprovalID)) || !b.RunID.Valid() {
		return fault.Terminal("invalid", fmt.Errorf("withdraw %s: ids %.150q and %.150q are not valid", m.ID, b.ApprovalID, b.RunID))
	}
	w := Withdrawal{
		ID: b.ApprovalID, Namespace: m.Namespace, RunID: b.RunID,
		Reason: strings.ReplaceAll(cmp.Or(b.Reason, "the run no longer needs it"), "\x00", "\uFFFD"),
	}
	if err := s.inbox.Withdraw(ctx, w); err != nil {
		return fmt.Errorf("withdraw approval %s: %w", b.ApprovalID, err)
	}
	s.notifier.Kick()
	return nil
}

// Reject keeps a message that can never be handled, with the reason.
func (s *Service) Reject(ctx context.Context, m events.Received, code string, err error) error {
	s.log.ErrorContext(ctx, "approval message rejected", telemetry.KeyMessageID, m.ID, telemetry.KeyCode, code, telemetry.KeyErr, err)
	return s.inbox.Reject(ctx, m, code, err)
}

// notice keeps what people are to be told and has it sent.
func (s *Service) notice(ctx context.Context, m events.Received) error {
	var n events.Notice
	if err := events.Decode(m.Message, &n); err != nil {
		return fault.Terminal("decode", err)
	}
	if !events.ValidToken(string(n.NoticeID)) || n.Namespace == "" || n.Channel == "" || n.Reason == "" || n.RunID != "" && !n.RunID.Valid() {
		return fault.Terminal("invalid", fmt.Errorf("notice %s: it names no notice, namespace, channel or reason", m.ID))
	}
	if err := s.inbox.Notice(ctx, n); err != nil {
		return fmt.Errorf("keep notice %s: %w", n.NoticeID, err)
	}
	s.notifier.Kick()
	return nil
}
