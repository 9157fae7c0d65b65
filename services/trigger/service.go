package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-run/holdfast/internal/follow"
	"github.com/holdfast-run/holdfast/internal/lifecycle"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Config holds the service's settings.
type Config struct {
	// CatchUp is how old a missed fire may be and still start its run.
	CatchUp time.Duration `help:"How late a schedule may still start the newest run that it missed." default:"1h"`
	// SyncEvery is how often changed definitions of schedules are looked for.
	SyncEvery time.Duration `help:"How often changed schedules are looked for." default:"3s"`
	Bounds    `embed:""`
	// DeliveryRetention is how long the delivery log is kept.
	DeliveryRetention time.Duration `help:"How long the log of webhooks' requests is kept. Accepted starts are kept longer." default:"720h"`
	// StartRetention is how long the key of a start is known behind its run's deletion.
	StartRetention time.Duration `help:"How long a start whose run was deleted is known by its key. A repeat that comes later starts a run of its own." default:"9600h"`
	// SignalRetention is how long a signal is kept after it was taken or expired.
	SignalRetention time.Duration `help:"How long a signal is kept after a run took it or it expired. A repeat that comes later is a signal of its own." default:"720h"`
}

// Validate joins every problem of the settings.
func (c Config) Validate() error {
	errs := []error{c.Bounds.Validate()}
	if c.CatchUp < 0 || c.CatchUp > 30*24*time.Hour {
		errs = append(errs, fmt.Errorf("catch-up %s is not between 0 and 720h", c.CatchUp))
	}
	if c.SyncEvery < 0 || c.SyncEvery > time.Hour {
		errs = append(errs, fmt.Errorf("sync-every %s is not between 0 and 1h", c.SyncEvery))
	}
	if c.DeliveryRetention < 0 || c.DeliveryRetention > 10*366*24*time.Hour {
		errs = append(errs, fmt.Errorf("delivery-retention %s is not between 0 and ten years", c.DeliveryRetention))
	}
	if c.StartRetention < 24*time.Hour || c.StartRetention > 10*366*24*time.Hour {
		errs = append(errs, fmt.Errorf("start-retention %s is not between 24h and ten years", c.StartRetention))
	}
	if c.SignalRetention < time.Hour || c.SignalRetention > 10*366*24*time.Hour {
		errs = append(errs, fmt.Errorf("signal-retention %s is not between 1h and ten years", c.SignalRetention))
	}
	return errors.Join(errs...)
}

// Relay announces committed deliveries on RUNS until the runner has them.
type Relay interface {
	Kick()                  // announce soon; never blocks
	Offer(m events.Message) // announce this, of a row that was just stored; never blocks
	Run(ctx context.Context) error
}

// Inbox delivers the messages of hf.in.<name>.
type Inbox interface {
	Start(ctx context.Context, in Intake) error
	Stop(ctx context.Context) error
}

// Intake is what an Inbox hands messages to.
type Intake interface {
	Message(ctx context.Context, m events.Received) error
	RejectMessage(ctx context.Context, m events.Received, code string, cause error) error
}

// Parts are what the service is built of.
type Parts struct {
	Store       Store
	Definitions Definitions
	Providers   []Provider
	Planner     Planner
	Relay       Relay
	Cancels     Relay // announces cancels of runs that give way; nil: somebody else does
	Signals     Relay // gives kept signals to runs that wait; nil: somebody else does
	Inbox       Inbox // nil: no messages are taken
	// Tail tells at once when a run has moved; nil: its history is looked at.
	Tail follow.Tail
	// Secrets resolves a reference in this process.
	Secrets func(spec.SecretRef) (string, error)
	Metrics *Metrics // nil: nothing is counted
	Log     *slog.Logger
}

// Service is the trigger service without its doors; httpapi hangs them in.
// Its methods are safe for concurrent use.
type Service struct {
	cfg         Config
	store       Store
	attempts    *logKeeper
	definitions Definitions
	assumed     assumptions
	providers   map[string]Provider
	planner     Planner
	relay       Relay
	cancels     Relay
	signals     Relay
	inbox       Inbox
	follower    *follow.Follower
	secrets     func(spec.SecretRef) (string, error)
	metrics     *Metrics
	log         *slog.Logger

	sync  chan struct{} // asks the clock to look for changed schedules now
	ahead atomic.Int64  // how far the process's clock is ahead of the database's, in nanoseconds
}

var (
	_ lifecycle.Service = (*Service)(nil)
	_ Intake            = (*Service)(nil)
)

// New builds the service. It does nothing before Start.
func New(c Config, p Parts) (*Service, error) {
	if c.CatchUp == 0 {
		c.CatchUp = time.Hour
	}
	if c.SyncEvery == 0 {
		c.SyncEvery = 3 * time.Second
	}
	if c.DeliveryRetention == 0 {
		c.DeliveryRetention = 30 * 24 * time.Hour
	}
	if c.StartRetention == 0 {
		c.StartRetention = 400 * 24 * time.Hour
	}
	if c.SignalRetention == 0 {
		c.SignalRetention = 30 * 24 * time.Hour
	}
	c.Bounds.setDefaults()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &Service{
		cfg: c, store: p.Store, definitions: p.Definitions, providers: map[string]Provider{}, planner: p.Planner,
		relay: p.Relay, cancels: p.Cancels, signals: p.Signals, inbox: p.Inbox, secrets: p.Secrets, metrics: p.Metrics, log: p.Log, sync: make(chan struct{}, 1),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.attempts = newLogKeeper(s.store, s.log)
	s.follower = follow.New(p.Tail, s.store, s.log)
	for _, provider := range p.Providers {
		if _, twice := s.providers[provider.Name()]; twice {
			return nil, fmt.Errorf("two webhook providers are named %q", provider.Name())
		}
		s.providers[provider.Name()] = provider
	}
	return s, nil
}

// Name implements lifecycle.Service.
func (s *Service) Name() string { return "trigger" }

// Start begins to take messages.
func (s *Service) Start(ctx context.Context) error {
	if _, err := s.untilDue(ctx, nil); err != nil { // for Now
		s.log.WarnContext(ctx, "looking at the database's clock failed", telemetry.KeyErr, err)
	}
	if s.inbox == nil {
		return nil
	}
	if err := s.inbox.Start(ctx, s); err != nil {
		return fmt.Errorf("start intake of messages: %w", err)
	}
	return nil
}

// Run announces deliveries and fires schedules until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var relayErr error
	wg.Go(func() {
		defer cancel()
		relayErr = s.relay.Run(ctx)
	})
	if s.cancels != nil {
		wg.Go(func() { _ = s.cancels.Run(ctx) }) // it ends with ctx, without an error
	}
	if s.signals != nil {
		wg.Go(func() { _ = s.signals.Run(ctx) }) // it ends with ctx, without an error
	}
	wg.Go(func() { s.attempts.run(ctx, s.cfg.DeliveryRetention) })
	wg.Go(func() { s.sweepSignals(ctx) })
	wg.Go(func() { s.watchBacklog(ctx) })
	wg.Go(func() { _ = s.follower.Run(ctx) }) // it ends with ctx, without an error
	s.keepTime(ctx)
	cancel()
	wg.Wait()
	return relayErr
}

// Stop takes no more messages and lets those in hand finish. What is committed
// and not yet announced is announced by Run until its context ends, else by
// another replica or the next start.
func (s *Service) Stop(ctx context.Context) error {
	if s.inbox == nil {
		return nil
	}
	return s.inbox.Stop(ctx)
}
