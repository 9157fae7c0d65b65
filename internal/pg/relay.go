package pg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-run/holdfast/internal/failpoint"
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
	// PublishAll is Publish for a batch: one error for each message, in their order.
	// Nil: they go one by one, a few at a time.
	PublishAll func(ctx context.Context, batch []events.Message) []error

	Log   *slog.Logger
	Limit int           // of one Load; zero means 100
	Every time.Duration // between sweeps; zero means 1 s

	once    sync.Once
	kick    chan struct{}
	offered chan events.Message
	mu      sync.Mutex
	inHand  map[string]struct{} // ids in offered: they are not loaded as well
}

const (
	// relayWorkers publish one batch together; each waits for its own PubAck.
	relayWorkers = 8
	// relayMany is from how many rows at once on a relay waits relayGather for more:
	// every batch costs two statements and a commit, whatever its size.
	relayMany   = 16
	relayGather = 5 * time.Millisecond
	// relayOffers is how many offered messages may wait; the rest is loaded.
	relayOffers = 1024
	// relayUnmarked is how many announced messages wait for the mark of the next
	// sweep: most have landed by then, and need none.
	relayUnmarked = 4096
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

// Offer announces the message of a row that was just committed, which saves the
// loading; m must be what Load would return for it. When too many wait it is
// loaded after all. It never blocks.
func (r *Relay) Offer(m events.Message) {
	r.init()
	m.MsgID = AnnounceID(m.ID, 0)
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case r.offered <- m:
		r.inHand[m.ID] = struct{}{}
	default:
		r.Kick()
	}
}

// takeOffered returns what waits, at most limit, behind first.
func (r *Relay) takeOffered(first events.Message, limit int) []events.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	batch := []events.Message{first}
	for n := len(r.offered); n > 0 && len(batch) < limit; n-- {
		batch = append(batch, <-r.offered)
	}
	for _, m := range batch {
		delete(r.inHand, m.ID)
	}
	return batch
}

func (r *Relay) holds(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.inHand[id]
	return ok
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
			return s.stop(ctx)
		case m := <-r.offered:
			if s.take(ctx, m) == nil {
				wait = 0
				continue
			}
			// The table has them: what follows announces them, or waits.
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

func (r *Relay) init() {
	r.once.Do(func() {
		r.kick, r.offered, r.inHand = make(chan struct{}, 1), make(chan events.Message, relayOffers), map[string]struct{}{}
	})
}

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
	// unmarked are the ids of messages that NATS has stored.
	unmarked []string
}

// take publishes an offered message, and those that wait behind it. After an
// error nobody waits: the rows are loaded.
func (s *relaySweep) take(ctx context.Context, first events.Message) error {
	done, err := s.publish(ctx, s.takeOffered(first, s.limit()))
	s.unmarked = append(s.unmarked, done...)
	if err != nil && len(s.offered) > 0 {
		s.takeOffered(<-s.offered, relayOffers)
	}
	if len(s.unmarked) >= relayUnmarked {
		err = errors.Join(err, s.mark(ctx))
	}
	return err
}

// mark marks what is published. After an error it may be loaded and published
// once more, under the same id, and is marked then.
func (s *relaySweep) mark(ctx context.Context) error {
	if len(s.unmarked) == 0 {
		return nil
	}
	if err := failpoint.Hit("relay.marking", s.Name); err != nil {
		return err
	}
	err := within(ctx, func(ctx context.Context) error { return s.Mark(ctx, s.unmarked) })
	if err == nil {
		s.unmarked = nil
		err = failpoint.Hit("relay.marked", s.Name)
	}
	return err
}

// stop marks what is left when Run ends.
func (s *relaySweep) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := s.mark(ctx); err != nil {
		s.log.Warn("announced rows are not marked; they are announced again", telemetry.KeyErr, err)
	}
	return nil
}

func (s *relaySweep) limit() int {
	if s.Limit > 0 {
		return s.Limit
	}
	return 100
}

type skipped struct {
	until time.Time
	wait  time.Duration
}

// drain announces until nothing is due. progress says that it marked a row.
func (s *relaySweep) drain(ctx context.Context) (progress bool, err error) {
	s.last = 0
	limit := s.limit()
	if err := s.mark(ctx); err != nil { // or they would be loaded
		return false, fmt.Errorf("mark: %w", err)
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
			s.unmarked = append(s.unmarked, done...)
			if merr := s.mark(ctx); merr != nil {
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
		if k, ok := s.skip[m.ID]; ok && now.Before(k.until) || s.holds(m.ID) {
			continue
		}
		todo = append(todo, m)
	}
	return todo
}

// publish sends a batch and returns the ids that NATS has stored. The first
// failure that time may cure stops the batch: the rest would fail too.
func (s *relaySweep) publish(ctx context.Context, batch []events.Message) (done []string, err error) {
	if err := failpoint.Hit("relay.publishing", s.Name); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	settle := func(m events.Message, perr error) {
		mu.Lock()
		defer mu.Unlock()
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
	}
	if s.PublishAll != nil {
		for i, perr := range s.PublishAll(ctx, batch) {
			settle(batch[i], perr)
		}
		return done, err
	}
	next := make(chan events.Message)
	var wg sync.WaitGroup
	for range min(relayWorkers, len(batch)) {
		wg.Go(func() {
			for m := range next {
				settle(m, s.Publish(ctx, m))
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
