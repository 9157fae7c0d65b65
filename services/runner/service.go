package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Config is what an operator sets.
type Config struct {
	ModelSlots  int           `default:"32" help:"Model calls at once in this process."`
	MaxAttempts int           `default:"5" help:"Workers that a run may lose in a row before it is parked for a person."`
	DoctorEvery time.Duration `default:"5s" help:"How often pending work without progress is looked for."`
	Retention   []string      `placeholder:"RULE" help:"Delete runs so long after their end: 90d for all, failed=365d, agent/NAME=30d, flow/NAME/completed=7d, NAMESPACE:agent/NAME=keep. The most specific rule counts; without one runs are kept for ever. Repeatable."`
	MaxTreeRuns int64         `default:"10000" help:"Runs that may be started below one run: its children, their children and so on, repeated attempts included."`
}

// Validate joins every problem it finds.
func (c Config) Validate() error {
	var errs []error
	if c.ModelSlots < 1 || c.ModelSlots > 10_000 {
		errs = append(errs, fmt.Errorf("runner-model-slots is %d, want 1 to 10000", c.ModelSlots))
	}
	if c.MaxAttempts < 1 {
		errs = append(errs, fmt.Errorf("runner-max-attempts is %d, want at least 1", c.MaxAttempts))
	}
	if c.MaxTreeRuns < 1 || c.MaxTreeRuns > 10_000_000 {
		errs = append(errs, fmt.Errorf("runner-max-tree-runs is %d, want 1 to 10000000", c.MaxTreeRuns))
	}
	if c.DoctorEvery < 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("runner-doctor-every is %s, want at least 100ms", c.DoctorEvery))
	}
	if _, err := ParseRetention(c.Retention); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Publisher puts a message on the bus and returns when it is stored.
type Publisher interface {
	Publish(ctx context.Context, m events.Message) error
	// PublishAll is Publish for many, written before the first is confirmed.
	PublishAll(ctx context.Context, all []events.Message) []error
}

// Heart is this process's heartbeat in the database.
type Heart interface {
	Fresh() bool
	WaitFresh(ctx context.Context) error
}

// Definitions reads immutable versions by digest.
type Definitions interface {
	Agent(ctx context.Context, namespace string, d events.Digest) (*spec.Agent, error)
	Flow(ctx context.Context, namespace string, d events.Digest) (*spec.Flow, error)
	Tool(ctx context.Context, namespace string, d events.Digest) (*spec.Tool, error)
	Model(ctx context.Context, namespace string, d events.Digest) (*spec.Model, error)
	Budget(ctx context.Context, namespace string, d events.Digest) (*spec.Budget, error)
	// CurrentDigest resolves a name to its newest version.
	CurrentDigest(ctx context.Context, namespace, kind, name string) (events.Digest, error)
	// CurrentDigests resolves many names, at one moment; the digest of one that means
	// nothing is empty.
	CurrentDigests(ctx context.Context, namespace string, names []events.Ref) ([]events.Digest, error)
}

// Model makes one model call. Errors are *ModelError, or the context's.
type Model interface {
	Answer(ctx context.Context, r Request) (Answer, error)
}

// Request is one model call.
type Request struct {
	RunID     events.RunID
	Seq       int64
	Epoch     int64
	Model     *spec.Model
	System    string
	Tools     []NamedTool
	Entries   []Entry
	Messages  int  // of State.Messages that Entries have
	Summary   bool // it asks for a summary of the conversation, see compact.go
	MaxTokens int64
	// Show takes the answer's pieces as they come, from one goroutine, and never
	// waits; nil when nobody can see them.
	Show func(Piece)
}

// NamedTool is a tool as the model is shown it.
type NamedTool struct {
	Name string
	*spec.Tool
}

// Lag reads how much a consumer has to do.
type Lag interface {
	Pending(ctx context.Context, stream, durable string) (uint64, error)
}

// Service is one runner process.
type Service struct {
	cfg    Config
	worker string
	store  Store
	bus    Publisher
	heart  Heart
	defs   Definitions
	model  Model
	lag    Lag
	log    *slog.Logger
	// metrics may be nil.
	metrics *Metrics
	slots   *Slots
	gate    *gate
	live    *liveFeed

	retention Retention
	events    EventStream

	locks  runLocks
	cache  *stateCache
	lanes  laneCache
	mu     sync.Mutex
	active map[events.RunID]int64 // epoch of the model call that this process makes

	poolMoved  chan struct{}   // a look at the queues of the pools is due
	poolRaised chan PausedPool // and at who is paused for one
	slotMoved  chan struct{}   // and at those of concurrency keys
}

// Deps are the adapters of a service.
type Deps struct {
	Worker string // unique per process start
	Store  Store
	Bus    Publisher
	Heart  Heart
	Defs   Definitions
	Model  Model
	Live   Live        // nil: answers are not shown while they are written
	Events EventStream // nil: events of deleted runs stay where they are for a day
	Lag    Lag
	// CachedRuns is how many folded runs are kept in memory; zero means 4096.
	CachedRuns int
	Log        *slog.Logger
	Metrics    *Metrics // nil: nothing is counted
}

// New returns a service that is ready to handle messages. It starts nothing.
func New(cfg Config, d Deps) *Service {
	if d.CachedRuns == 0 {
		d.CachedRuns = 4096
	}
	retention, _ := ParseRetention(cfg.Retention) // Validate tells what is wrong with it
	return &Service{
		retention: retention, events: d.Events,
		cfg: cfg, worker: d.Worker, store: d.Store, bus: d.Bus, heart: d.Heart, defs: d.Defs, model: d.Model, lag: d.Lag,
		log: d.Log.With("worker", d.Worker), metrics: d.Metrics,
		slots: NewSlots(cfg.ModelSlots, events.StepKinds()...), gate: newGate(), live: newLiveFeed(d.Live), cache: newStateCache(d.CachedRuns), active: map[events.RunID]int64{},
		poolMoved: make(chan struct{}, 1), poolRaised: make(chan PausedPool, 64), slotMoved: make(chan struct{}, 1),
	}
}

// Slots bounds the model calls of this process. It is shared by the commits
// that take a claim at once and by the puller of steps.
func (s *Service) Slots() *Slots { return s.slots }

// Run moves timers and asks about work without progress, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { s.runTimers(ctx) })
	wg.Go(func() { s.runDoctor(ctx) })
	wg.Go(func() { s.live.run(ctx) })
	wg.Go(func() { s.runPoolWaits(ctx) })
	wg.Go(func() { s.runSlots(ctx) })
	wg.Go(func() { s.watchStalled(ctx) })
	wg.Go(func() { s.runDeletions(ctx) })
	wg.Wait()
	return nil
}

func (s *Service) setActive(id events.RunID, epoch int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active[id] = epoch
}

// setIdle says that the call of this epoch is not made here any more. Another
// handler may have the next one by now.
func (s *Service) setIdle(id events.RunID, epoch int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active[id] == epoch {
		delete(s.active, id)
	}
}

func (s *Service) activeEpoch(id events.RunID) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active[id]
}

func (s *Service) logFor(id events.RunID) *slog.Logger {
	return s.log.With(telemetry.KeyRunID, string(id))
}
