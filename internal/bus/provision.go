package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Settings of the streams and consumers. AckWait is short because a dead
// worker's messages wait for it; a live one says InProgress.
const (
	AckWait       = 2 * time.Second
	inProgressAt  = 500 * time.Millisecond
	maxAckPending = 4096
	duplicates    = 30 * time.Second
	eventsMaxAge  = 24 * time.Hour
	// eventsMaxConsumers replaces the server's limit of 1,000 per stream.
	eventsMaxConsumers = 20_000
)

// ErrNotProvisioned says that a stream or consumer is gone and that this Bus
// may not set it up, because Provision was never called on it.
var ErrNotProvisioned = errors.New("streams are not set up")

// Provision sets up all streams and durable consumers, one for each tool pool;
// the pool of callbacks is always among them. With Config.Own it is those that
// the connection's services own.
// It may be called again, by many processes at once and over the settings of an
// older release. When streams vanish later, this Bus sets them up again with
// the same pools. It waits for a connection until ctx ends.
func (b *Bus) Provision(ctx context.Context, pools []string) error {
	for _, p := range pools {
		if !events.ValidToken(p) {
			return fmt.Errorf("provision: tool pool %q is not a subject token", p)
		}
	}
	b.provisioning.Lock()
	defer b.provisioning.Unlock()
	all := slices.Concat(b.pools, pools, []string{events.PoolCallbacks})
	slices.Sort(all)
	all = slices.Compact(all)
	if err := b.provision(ctx, all); err != nil {
		return err
	}
	b.provisioned, b.pools = true, all
	return nil
}

// reprovision sets up again what Provision set up.
func (b *Bus) reprovision(ctx context.Context) error {
	b.provisioning.Lock()
	defer b.provisioning.Unlock()
	if !b.provisioned {
		return ErrNotProvisioned
	}
	return b.provision(ctx, b.pools)
}

func (b *Bus) provision(ctx context.Context, pools []string) error {
	if err := b.waitConnected(ctx); err != nil {
		return fmt.Errorf("provision: %w", err)
	}
	for _, s := range streams(b.replicas) {
		if !b.owns(s.Name) {
			continue
		}
		err := again(ctx, func(ctx context.Context) error {
			_, err := b.js.CreateOrUpdateStream(ctx, s)
			return err
		})
		if err != nil {
			return fmt.Errorf("provision stream %s: %w", s.Name, err)
		}
	}
	for _, d := range durables(pools) {
		if !b.owns(d.stream) {
			continue
		}
		err := again(ctx, func(ctx context.Context) error {
			_, err := b.js.CreateOrUpdateConsumer(ctx, d.stream, d.config())
			return err
		})
		if err != nil {
			return fmt.Errorf("provision consumer %s of %s: %w", d.name, d.stream, err)
		}
	}
	return nil
}

func (b *Bus) owns(stream string) bool { return b.owned == nil || slices.Contains(b.owned, stream) }

// again repeats do: another process may be doing the same at this moment, or
// the server has just come up and lost the request.
func again(ctx context.Context, do func(context.Context) error) (err error) {
	for i := range 5 {
		actx, cancel := context.WithTimeout(ctx, patience(i+1))
		err = do(actx)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(i+1) * 50 * time.Millisecond):
		}
	}
	return err
}

func streams(replicas int) []jetstream.StreamConfig {
	queue := func(name string, maxBytes int64, subjects ...string) jetstream.StreamConfig {
		return jetstream.StreamConfig{
			Name: name, Subjects: subjects, Storage: jetstream.FileStorage, Replicas: replicas,
			Retention: jetstream.WorkQueuePolicy,
			// A full queue refuses; the publisher then keeps its cause unacknowledged.
			Discard:    jetstream.DiscardNew,
			MaxBytes:   maxBytes,
			Duplicates: duplicates,
		}
	}
	// Every stream has a limit: the store is shared, and one runaway stream
	// without would block all.
	return []jetstream.StreamConfig{
		queue(events.StreamIn, 64<<20, "hf.in.*"),
		queue(events.StreamRuns, 256<<20, "hf.run.*.*"),
		queue(events.StreamTools, 256<<20, "hf.tool.*.*", "hf.toolctl.*"),
		queue(events.StreamApprovals, 64<<20, "hf.approval.*.*"),
		{
			Name: events.StreamEvents, Subjects: []string{"hf.event.>"}, Storage: jetstream.FileStorage, Replicas: replicas,
			Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld,
			MaxAge: eventsMaxAge, MaxBytes: 256 << 20,
			MaxConsumers: eventsMaxConsumers,
			Duplicates:   duplicates,
			AllowDirect:  true,
		},
	}
}

type durable struct {
	stream, name string
	filters      []string
}

func durables(pools []string) []durable {
	var facts []string
	for _, what := range events.FastRunKinds {
		facts = append(facts, "hf.run.*."+what)
	}
	ds := []durable{
		{events.StreamIn, events.ConsumerTrigger, []string{"hf.in.*"}},
		{events.StreamRuns, events.ConsumerRunner, facts},
		{events.StreamTools, events.ConsumerToolCtl, []string{"hf.toolctl.*"}},
		{events.StreamApprovals, events.ConsumerApprovals, []string{"hf.approval.*.*"}},
	}
	for _, what := range events.StepKinds() {
		ds = append(ds, durable{events.StreamRuns, events.StepConsumer(what), []string{"hf.run.*." + what}})
	}
	for _, p := range pools {
		ds = append(ds, durable{events.StreamTools, events.ToolConsumer(p), []string{"hf.tool." + p + ".*"}})
	}
	return ds
}

func (d durable) config() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: d.name, FilterSubjects: d.filters,
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       AckWait,
		// Attempts are counted in Postgres. A message that reached MaxDeliver
		// would stay in the stream, undelivered and unseen.
		MaxDeliver:    -1,
		MaxAckPending: maxAckPending,
	}
}
