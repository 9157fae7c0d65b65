package pg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Relay announces the rows of one table until their receivers have them. The
// back-off of a row lives in the table; the package comment has the columns and
// the statements. Fill the fields, then call Run once.
//
// It never loses a row: a row leaves only by Landed. It may announce a row more
// than once; receivers know the cause. It works while NATS is away (it waits,
// up to five seconds between attempts) and while Postgres is away.
type Relay struct {
	Name string
	// Load returns at most limit messages that are due, the longest due first.
	// Their MsgID comes from AnnounceID. Required.
	Load func(ctx context.Context, limit int) ([]events.Message, error)
	// Mark records that the messages with these ce-ids were announced, and when
	// they are due again. Required.
	Mark func(ctx context.Context, ids []string) error
	// Landed marks the rows that their receiver has committed. Nil when nothing
	// can be looked up; then Mark must be the end of a row.
	Landed func(ctx context.Context) error
	// Publish returns nil when NATS has stored the message. Required.
	Publish func(ctx context.Context, m events.Message) error

	Log   *slog.Logger
	Limit int           // of one Load; zero means 100
	Every time.Duration // between sweeps; zero means 1 s

	once sync.Once
	kick chan struct{}
}

const (
	// relayWorkers publish one batch together; each waits for its own PubAck.
	relayWorkers = 8
	// relayMany is from how many rows at once on a relay waits relayGather for more:
	// every batch costs two statements and a commit, whatever its size.
	relayMany   = 16
	relayGather = 5 * time.Millisecond
	// relayStatement bounds one call of Load, Mark or Landed.
	relayStatement = 10 * time.Second
)

// AnnounceID is the message id of the next announcement of a row: the ce-id
// itself the first time, "<id>:n<k>" for the k-th repeat. A repeat needs a fresh
// one, because the stream would drop a known id although its message is gone.
func AnnounceID(id string, announceCount int) string {
	if announceCount <= 0 {
		return id
	}
	return fmt.Sprintf("%s:n%d", id, announceCount)
}

// Kick announces what is due now instead of at the next sweep. Call it after
// the commit of a row. It never blocks.
func (r *Relay) Kick() {
	r.init()
	select {
	case r.kick <- struct{}{}:
	default: // one is waiting, and it will load this row too
	}
}

// Run announces until ctx ends; it returns nil then. It has one loop; a batch
// is published by a few goroutines that end before the next batch.
func (r *Relay) Run(ctx context.Context) error {
	r.init()
	log, every := r.Log, r.Every
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	log = log.With("relay", r.Name)
	if every == 0 {
		every = time.Second
	}
	s := relaySweep{Relay: r, log: log, skip: map[string]skipped{}}
	sweep := time.NewTimer(0)
	defer sweep.Stop()
	wait := time.Duration(0)
	for {
		full := false
		select {
		case <-ctx.Done():
			return nil
		case <-sweep.C:
			full = true
			sweep.Reset(every)
		case <-r.kick:
			if s.last >= relayMany {
				pause(ctx, relayGather)
			}
		}
		if full && r.Landed != nil {
			if err := within(ctx, r.Landed); err != nil && ctx.Err() == nil {
				log.Warn("looking up landed rows failed", telemetry.KeyErr, err)
			}
		}
		progress, err := s.drain(ctx)
		if err == nil || progress {
			wait = 0
		}
		if err != nil && ctx.Err() == nil {
			wait = min(max(2*wait, 100*time.Millisecond), 5*time.Second)
			log.Warn("announcing stalled", telemetry.KeyErr, err, "wait", wait)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(wait):
			}
			r.Kick() // try again without waiting for the next sweep
		}
	}
}

func (r *Relay) init() { r.once.Do(func() { r.kick = make(chan struct{}, 1) }) }

// within keeps a line that went silent from stopping the relay.
func within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, relayStatement)
	defer cancel()
	return do(ctx)
}

// relaySweep is the state of one Run.
type relaySweep struct {
	*Relay
	log *slog.Logger
	// skip holds messages that cannot be published as they are (too large, say):
	// they must not block those behind them, and are tried again now and then.
	skip map[string]skipped
	last int // how many rows the last drain announced
}

type skipped struct {
	until time.Time
	wait  time.Duration
}

// drain announces until nothing is due. progress says that it marked a row.
func (s *relaySweep) drain(ctx context.Context) (progress bool, err error) {
	s.last = 0
	limit := s.Limit
	if limit <= 0 {
		limit = 100
	}
	for {
		ask := limit + len(s.skip)
		var batch []events.Message
		err := within(ctx, func(ctx context.Context) (err error) {
			batch, err = s.Load(ctx, ask)
			return err
		})
		if err != nil {
			return progress, fmt.Errorf("load: %w", err)
		}
		todo := s.withoutSkipped(batch)
		if len(todo) == 0 {
			return progress, nil
		}
		done, err := s.publish(ctx, todo)
		if len(done) > 0 {
			merr := within(ctx, func(ctx context.Context) error { return s.Mark(ctx, done) })
			if merr != nil {
				return progress, errors.Join(err, fmt.Errorf("mark: %w", merr))
			}
			progress = true
			s.last += len(done)
		}
		if err != nil {
			return progress, fmt.Errorf("publish: %w", err)
		}
		if len(batch) < ask {
			return progress, nil
		}
	}
}

func (s *relaySweep) withoutSkipped(batch []events.Message) []events.Message {
	todo := make([]events.Message, 0, len(batch))
	now := time.Now()
	for _, m := range batch {
		if k, ok := s.skip[m.ID]; ok && now.Before(k.until) {
			continue
		}
		todo = append(todo, m)
	}
	return todo
}

// publish sends a batch and returns the ids that NATS has stored. The first
// failure that time may cure stops the batch: the rest would fail too.
func (s *relaySweep) publish(ctx context.Context, batch []events.Message) (done []string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next := make(chan events.Message)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range min(relayWorkers, len(batch)) {
		wg.Go(func() {
			for m := range next {
				perr := s.Publish(ctx, m)
				mu.Lock()
				switch _, terminal := fault.TerminalCode(perr); {
				case perr == nil:
					delete(s.skip, m.ID)
					done = append(done, m.ID)
				case terminal:
					k := s.skip[m.ID]
					k.wait = min(max(2*k.wait, 10*time.Second), 5*time.Minute)
					k.until = time.Now().Add(k.wait)
					s.skip[m.ID] = k
					s.log.Error("message cannot be announced", telemetry.KeyEvent, m.ID, telemetry.KeyErr, perr)
				case err == nil:
					err = fmt.Errorf("%s: %w", m.ID, perr)
					cancel()
				}
				mu.Unlock()
			}
		})
	}
feed:
	for _, m := range batch {
		select {
		case next <- m:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	wg.Wait()
	return done, err
}
