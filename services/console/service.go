package console

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-run/holdfast/internal/follow"
	"github.com/holdfast-run/holdfast/internal/lifecycle"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Store is everything the console keeps and reads; postgres.Store is one.
type Store interface {
	RunReader
	CommandStore
	BulkStore
	ForkStore
	TurnReader
	TimelineReader
	SaidReader
	PartReader
	DeletionStore
	MessageStore
	MigrationReader
	BundleReader
	JournalReader
	ProgramStore
	TokenStore
	SessionStore
	ActReader
	ResourceStore
	DefinitionReader
	CostReader
	DurabilityReader
	OperationReader
	SystemReader
	CheckupReader
	PoolReader
	ConcurrencyReader
	AnswersReader
	follow.History
	Looker
	NamesReader
}

// Relay hands commands to the bus until the runner has them.
type Relay interface {
	Kick()
	Run(ctx context.Context) error
}

// Config is what a Service works with.
type Config struct {
	Store   Store
	Relay   Relay
	Tail    follow.Tail
	Streams Streams  // nil: no backlog is shown
	Pools   []string // tool pools whose backlog is shown
	// CheckpointBytes is the largest state that a program may save; zero means
	// 1 MiB.
	CheckpointBytes int64
	Metrics         *Metrics // nil: nothing is counted
	Log             *slog.Logger
}

// Service is the console of one process. It is safe for concurrent use.
type Service struct {
	Store
	*follow.Follower
	board   *board
	metrics *Metrics

	overviews overviews
	relay     Relay
	streams   Streams
	pools     []string
	limit     int64 // of a checkpoint
	log       *slog.Logger
}

var _ lifecycle.Service = (*Service)(nil)

// New returns a console that reads and writes at once, and follows events and
// hands out commands while Run runs.
func New(c Config) *Service {
	if c.CheckpointBytes == 0 {
		c.CheckpointBytes = DefaultCheckpointBytes
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	followed := follow.New(c.Tail, c.Store, c.Log)
	return &Service{
		Store: c.Store, Follower: followed, board: newBoard(followed, c.Store, c.Log), metrics: c.Metrics, relay: c.Relay, streams: c.Streams, pools: c.Pools, limit: c.CheckpointBytes, log: c.Log,
	}
}

// Log is where the doors of this console say what went wrong.
func (s *Service) Log() *slog.Logger { return s.log }

// Name implements lifecycle.Service.
func (s *Service) Name() string { return "console" }

// Start implements lifecycle.Service; there is nothing to wait for: pages and
// histories work without the bus.
func (s *Service) Start(context.Context) error { return nil }

// Run follows the event stream and relays commands until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 3)
	go func() { failed <- s.Follower.Run(ctx) }()
	go func() { failed <- s.relay.Run(ctx) }()
	go func() { failed <- s.board.run(ctx) }()
	first := <-failed
	cancel()
	return errors.Join(first, <-failed, <-failed)
}

// Stop implements lifecycle.Service. Commands that are not announced yet stay
// rows, which the next process announces.
func (s *Service) Stop(context.Context) error { return nil }

// Command records an order about a run and lets it be handed over. The same key
// returns the same command and replayed true.
func (s *Service) Command(ctx context.Context, namespace, principal, key string, run events.RunID, o Order) (c Command, replayed bool, err error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Command{}, false, err
	}
	c, err = o.command(id.String(), namespace, principal, key, run)
	if err != nil {
		return Command{}, false, err
	}
	c, replayed, err = s.AddCommand(ctx, c)
	if err != nil {
		return Command{}, false, err
	}
	s.relay.Kick()
	return c, replayed, nil
}

// WhyRun explains a run.
func (s *Service) WhyRun(ctx context.Context, namespace string, id events.RunID) (Reason, error) {
	situation, err := s.Situation(ctx, namespace, id)
	if err != nil {
		return Reason{}, err
	}
	return Why(situation), nil
}

// System tells who works and how far behind the streams are. It answers without
// the bus.
func (s *Service) System(ctx context.Context, namespace string) (System, error) {
	workers, err := s.Workers(ctx)
	if err != nil {
		return System{}, err
	}
	stops, err := s.Stops(ctx, namespace)
	if err != nil {
		return System{}, err
	}
	out := System{Workers: workers, Stops: stops, Events: s.Position(), At: time.Now().UTC()}
	if s.streams == nil {
		out.NoLag = "this process does not read the streams"
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	consumers := []Lag{
		{Stream: events.StreamIn, Durable: events.ConsumerTrigger},
		{Stream: events.StreamRuns, Durable: events.ConsumerRunner},
		{Stream: events.StreamRuns, Durable: events.ConsumerRunnerStep},
		{Stream: events.StreamTools, Durable: events.ConsumerToolCtl},
		{Stream: events.StreamApprovals, Durable: events.ConsumerApprovals},
	}
	for _, pool := range s.pools {
		consumers = append(consumers, Lag{Stream: events.StreamTools, Durable: events.ToolConsumer(pool)})
	}
	for _, c := range consumers {
		lag, err := s.lag(ctx, c)
		if err != nil {
			out.NoLag = "the backlog of " + c.Durable + " could not be read"
			s.log.WarnContext(ctx, "backlog not readable", "consumer", c.Durable, "err", err)
			if ctx.Err() != nil {
				break
			}
			continue
		}
		lag.Stream, lag.Durable = c.Stream, c.Durable
		out.Lags = append(out.Lags, lag)
	}
	return out, nil
}

// lag reads the backlog of one consumer; the lanes of steps count as one.
func (s *Service) lag(ctx context.Context, c Lag) (sum Lag, err error) {
	durables := []string{c.Durable}
	if c.Durable == events.ConsumerRunnerStep {
		durables = durables[:0]
		for _, what := range events.StepKinds() {
			durables = append(durables, events.StepConsumer(what))
		}
	}
	for _, durable := range durables {
		lag, err := s.streams.Lag(ctx, c.Stream, durable)
		if err != nil {
			return Lag{}, err
		}
		sum.Pending, sum.AckPending, sum.Redelivered = sum.Pending+lag.Pending, sum.AckPending+lag.AckPending, sum.Redelivered+lag.Redelivered
	}
	return sum, nil
}
