package approvals

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/internal/lifecycle"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Config of the service. The zero value is usable.
type Config struct {
	// SweepEvery is how often requests whose time has passed are looked for;
	// zero means one second. A decision is refused at the exact moment anyway.
	SweepEvery time.Duration
	// ProposeAfter is how often people must have approved the same before the inbox
	// proposes a grant; zero: it never does.
	ProposeAfter int
}

// Deps are what the service works with; all are required.
type Deps struct {
	Inbox    Inbox
	Decider  Decider
	Reader   Reader
	Groups   Grouper
	Grants   Grants
	Audit    Auditor // nil: nothing is recorded beside what the database records
	Announce Announcer
	Notifier *Notifier // nil: another process sends
	Resends  Resender
	Links    Links    // nil: there are none
	Channels Channels // empty: nobody decides in channels
	// PublicURL is as of NotifierDeps.
	PublicURL func() string
	// Tools reads the version of a tool that a request is about; ErrNoTool. Nil:
	// no arguments can be changed.
	Tools   func(ctx context.Context, namespace string, digest events.Digest) (*spec.Tool, error)
	Log     *slog.Logger
	Metrics *Metrics // nil: nothing is counted
}

// Service takes questions from the runner and decisions from people. Its
// methods are safe for concurrent use. As a lifecycle.Service it ends requests
// whose time has passed; a waiting request costs one row and nothing else.
type Service struct {
	sweepEvery time.Duration

	proposeAfter int

	inbox     Inbox
	decider   Decider
	reader    Reader
	groups    Grouper
	audit     Auditor
	grants    Grants
	announce  Announcer
	notifier  *Notifier
	resends   Resender
	links     Links
	channels  Channels
	publicURL func() string
	tools     func(ctx context.Context, namespace string, digest events.Digest) (*spec.Tool, error)
	replies   chan func(context.Context)
	log       *slog.Logger
	metrics   *Metrics
}

var _ lifecycle.Service = (*Service)(nil)

// New returns a service that does nothing until it is called or run.
func New(c Config, d Deps) *Service {
	if c.SweepEvery == 0 {
		c.SweepEvery = time.Second
	}
	return &Service{
		sweepEvery: c.SweepEvery, proposeAfter: c.ProposeAfter, inbox: d.Inbox, decider: d.Decider, reader: d.Reader, groups: d.Groups, audit: d.Audit, grants: d.Grants,
		announce: d.Announce, notifier: d.Notifier, resends: d.Resends, links: d.Links, channels: d.Channels, replies: make(chan func(context.Context), 256), log: d.Log, metrics: d.Metrics,
		tools: d.Tools, publicURL: d.PublicURL,
	}
}

// Decide makes one attempt. The error is nil when the request has the wanted
// decision afterwards, made now or before (repeated), or waits on with this yes counted; *Conflict when it has not;
// ErrInvalid or ErrNotFound when it cannot. After a nil error the decision is
// committed and reaches the runner by itself.
func (s *Service) Decide(ctx context.Context, a Attempt) (r Request, repeated bool, err error) {
	if d, err := ParseDecision(a.Decision); err == nil {
		a.Decision = d
	}
	if err := a.Check(); err != nil {
		return Request{}, false, err
	}
	if err := s.edit(ctx, &a); err != nil {
		return Request{}, false, err
	}
	r, outcome, err := s.decider.Decide(ctx, a)
	if err != nil {
		return Request{}, false, err
	}
	s.metrics.attempted(ctx, cmp.Or(a.Door, DoorAPI), outcome)
	switch outcome {
	case Decided:
		if err := failpoint.Hit("approvals.committed", string(r.ID)); err != nil {
			return Request{}, false, err
		}
		s.announce.Kick()
		s.notifier.Kick()
		s.log.InfoContext(ctx, "approval decided", telemetry.KeyApprovalID, r.ID, telemetry.KeyRunID, r.RunID, "decision", r.Decision, telemetry.KeyPrincipal, r.DecidedBy)
		return r, false, nil
	case Repeated:
		return r, true, nil
	case Counted:
		s.log.InfoContext(ctx, "approval counted", telemetry.KeyApprovalID, r.ID, telemetry.KeyRunID, r.RunID, telemetry.KeyPrincipal, a.By)
		return r, false, nil
	}
	c := &Conflict{Outcome: outcome, Request: r}
	switch {
	case outcome == Unfit:
		c.Detail = cmp.Or(a.Unfit, unfilled(r, a), unfit(r.Question, a.Result))
	case outcome == NotAllowed:
		c.Detail = MayNot(r, a.person())
	case outcome == Mismatch && a.Digest == "":
		c.Detail = "send the digest of what you were shown with your yes; nothing was done"
	}
	return r, false, c
}

// Get returns one request; ErrNotFound.
func (s *Service) Get(ctx context.Context, namespace string, id events.ApprovalID) (Request, error) {
	return s.reader.Get(ctx, namespace, id)
}

// List returns requests, newest first.
func (s *Service) List(ctx context.Context, f Filter) ([]Request, error) {
	return s.reader.List(ctx, f)
}

// Notices returns notices, newest first.
func (s *Service) Notices(ctx context.Context, f NoticeFilter) ([]Notice, error) {
	return s.reader.Notices(ctx, f)
}

// Name is "approvals".
func (s *Service) Name() string { return "approvals" }

// Start has nothing to prepare.
func (s *Service) Start(context.Context) error { return nil }

// Run ends requests whose time has passed and answers clicks, until ctx ends. A failed sweep is
// logged and repeated by the next one.
func (s *Service) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for range 4 {
		wg.Go(func() { s.answerClicks(ctx) })
	}
	wg.Go(func() { s.watchWaiting(ctx) })
	tick := time.NewTicker(s.sweepEvery)
	defer tick.Stop()
	for {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "expiry sweep failed", telemetry.KeyErr, err)
		}
		if err := s.Remind(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "reminders are late", telemetry.KeyErr, err)
		}
		if err := s.Escalate(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "escalations are late", telemetry.KeyErr, err)
		}
		if err := s.follow(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "audit is behind", telemetry.KeyErr, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Stop has nothing to drain: a sweep is one transaction, and one that is cut
// short is made by another process or after the next start.
func (s *Service) Stop(context.Context) error { return nil }

// sweepBatch is how many requests one statement ends.
const sweepBatch = 200

// Sweep ends every request whose time has passed.
func (s *Service) Sweep(ctx context.Context) error {
	for {
		ended, err := s.decider.Expire(ctx, sweepBatch)
		if err != nil {
			return fmt.Errorf("expire approvals: %w", err)
		}
		s.metrics.lapsed(ctx, len(ended))
		var hits []error
		for _, r := range ended {
			hits = append(hits, failpoint.Hit("approvals.committed", string(r.ID)))
			s.log.InfoContext(ctx, "approval expired", telemetry.KeyApprovalID, r.ID, telemetry.KeyRunID, r.RunID)
		}
		if err := errors.Join(hits...); err != nil {
			return err
		}
		if len(ended) > 0 {
			s.announce.Kick()
			s.notifier.Kick()
		}
		if len(ended) < sweepBatch {
			return nil
		}
	}
}
