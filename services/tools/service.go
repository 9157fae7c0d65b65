package tools

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/holdfast-run/holdfast/internal/lifecycle"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Config of the service.
type Config struct {
	// Worker is this process's name, unique per start, as its heartbeat uses it.
	Worker string
	// Pools are the tool pools that this process works for; empty means
	// "default".
	Pools []string
	// Slots is how many calls of one pool run at once; zero means 32.
	Slots int
	// SweepEvery is how often due calls are looked for; zero means one second.
	SweepEvery time.Duration
	// KeyRetention is how long a key is kept after its effect ended, then it is
	// a tombstone; zero means 400 days.
	KeyRetention time.Duration
	// HostLimits bound requests to hosts, by name, of all workers together.
	HostLimits map[string]spec.Limits
}

// Validate reports every problem of the configuration.
func (c Config) Validate() error {
	var errs []error
	if !events.ValidToken(c.Worker) {
		errs = append(errs, fmt.Errorf("worker %q is not a subject token", c.Worker))
	}
	for _, p := range c.Pools {
		if !events.ValidToken(p) {
			errs = append(errs, fmt.Errorf("tools-pools: %q is not a pool name (1 to 120 of A-Z a-z 0-9 _ -)", p))
		}
	}
	if c.Slots < 0 {
		errs = append(errs, fmt.Errorf("tools-slots is %d, want at least 1", c.Slots))
	}
	return errors.Join(errs...)
}

// Consumption is one durable consumer that the service wants to run.
type Consumption struct {
	Stream  string
	Durable string
	Workers int   // concurrent handlers, when Slots is nil
	Slots   Slots // nil: Workers counts
	Handle  func(context.Context, events.Received) error
	Reject  func(context.Context, events.Received, string, error) error
}

// Stopper ends a consumption: no more messages, handlers finish until ctx ends.
type Stopper interface {
	Stop(ctx context.Context) error
}

// Deps are what the service works with. Kick may be nil; the others are
// required.
type Deps struct {
	Store    Store
	Controls Controls
	Reader   Reader
	Once     OnceStore // nil: the ledger serves no programs
	Stops    StopStore
	Tools    Definitions
	Replies  Replies // nil: no results are posted to this process
	// PublicURL is where other systems reach the door, without a slash at its
	// end; empty: not known yet. Nil: tools that need it are refused.
	PublicURL func() string
	// Listing finds tools by name and Offers asks what can be imported; nil: this
	// process does neither.
	Listing Listing
	Offers  Offers
	// Callbacks without Ends: this process posts no ends of runs.
	Callbacks Callbacks
	Kinds     []Kind
	Bus       Publisher
	Heart     Heart
	Consume   func(ctx context.Context, c Consumption) (Stopper, error)
	Kick      func() // says that announcements have been committed
	Log       *slog.Logger
	Metrics   *Metrics // nil: nothing is counted
}

// Service runs tool calls. Its methods are safe for concurrent use.
type Service struct {
	worker     string
	pools      []string
	slots      int
	sweepEvery time.Duration
	store      Store
	controls   Controls
	reader     Reader
	once       OnceStore
	stops      StopStore
	replies    Replies
	publicURL  func() string
	retention  time.Duration
	hostLimits map[string]spec.Limits
	tools      Definitions
	listing    Listing
	offers     Offers
	callbacks  Callbacks
	kinds      []Kind
	bus        Publisher
	heart      Heart
	consume    func(context.Context, Consumption) (Stopper, error)
	kick       func()
	log        *slog.Logger
	now        func() time.Time
	attempts   *attempts
	running    []Stopper
	metrics    *Metrics
}

var _ lifecycle.Service = (*Service)(nil)

// New returns a service that does nothing until it is started or called.
func New(c Config, d Deps) (*Service, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if len(c.Pools) == 0 {
		c.Pools = []string{defaultPool}
	}
	if c.Slots == 0 {
		c.Slots = 32
	}
	if c.SweepEvery == 0 {
		c.SweepEvery = time.Second
	}
	if c.KeyRetention == 0 {
		c.KeyRetention = KeyRetention
	}
	if d.Kick == nil {
		d.Kick = func() {}
	}
	return &Service{
		worker: c.Worker, pools: c.Pools, slots: c.Slots, sweepEvery: c.SweepEvery,
		store: d.Store, controls: d.Controls, reader: d.Reader, once: d.Once, stops: d.Stops, replies: d.Replies, publicURL: d.PublicURL, retention: c.KeyRetention, hostLimits: c.HostLimits, tools: d.Tools, listing: d.Listing, offers: d.Offers, callbacks: d.Callbacks, kinds: d.Kinds, bus: d.Bus,
		heart: d.Heart, consume: d.Consume, kick: d.Kick, log: d.Log, now: time.Now, attempts: newAttempts(), metrics: d.Metrics,
	}, nil
}

// Name is "tools".
func (s *Service) Name() string { return "tools" }

// controlWorkers is how many control messages are handled at once: they are
// quick and must not wait behind slow tools.
const controlWorkers = 8

// Start begins to take messages. The heartbeat must run already.
func (s *Service) Start(ctx context.Context) error {
	wanted := []Consumption{{
		Stream: events.StreamTools, Durable: events.ConsumerToolCtl, Workers: controlWorkers,
		Handle: s.HandleControl, Reject: s.Reject,
	}}
	for _, pool := range s.pools {
		wanted = append(wanted, Consumption{
			Stream: events.StreamTools, Durable: events.ToolConsumer(pool), Slots: NewSlots(s.slots),
			Handle: s.HandleCall, Reject: s.Reject,
		})
	}
	for _, c := range wanted {
		running, err := s.consume(ctx, c)
		if err != nil {
			return errors.Join(fmt.Errorf("consume %s: %w", c.Durable, err), s.Stop(ctx))
		}
		s.running = append(s.running, running)
	}
	return nil
}

// Run sends due calls again, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(s.sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.Wake(ctx); err != nil && ctx.Err() == nil {
				s.log.WarnContext(ctx, "sweep of due calls failed, the next one repeats it", "err", err)
			}
		}
	}
}

// Stop takes no more messages and lets acts in flight finish until ctx ends.
func (s *Service) Stop(ctx context.Context) error {
	errs := make(chan error, len(s.running))
	for _, r := range s.running {
		go func() { errs <- r.Stop(ctx) }()
	}
	var all []error
	for range s.running {
		all = append(all, <-errs)
	}
	s.running = nil
	return errors.Join(all...)
}

func (s *Service) jitter(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return rand.N(limit)
}
