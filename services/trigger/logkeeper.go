package trigger

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-run/holdfast/internal/telemetry"
)

// How many rejected requests of one webhook one process logs: a burst, then one
// a second. The rest is counted, so that whoever has no secret cannot fill the
// table.
const (
	rejectedBurst = 60
	rejectedEvery = time.Second
	// omittedEvery is how often counted requests become an entry.
	omittedEvery = 15 * time.Second
	// keepWithin bounds how long an entry may delay its answer.
	keepWithin = time.Second
)

// logKeeper writes attempts that made no delivery. It is safe for concurrent use.
type logKeeper struct {
	store Attempts
	log   *slog.Logger
	now   func() time.Time

	mu    sync.Mutex
	hooks map[HookName]*rejections
}

// rejections is the allowance of one webhook.
type rejections struct {
	left    float64
	at      time.Time
	omitted int64
	since   time.Time // of the first omitted one
}

func newLogKeeper(store Attempts, log *slog.Logger) *logKeeper {
	return &logKeeper{store: store, log: log, now: time.Now, hooks: map[HookName]*rejections{}}
}

// keep writes an entry unless it is one rejection too many.
func (k *logKeeper) keep(ctx context.Context, a *Attempt) {
	if a.Outcome == OutcomeRejected && a.ReplayOf == "" && !k.allow(HookName{a.Namespace, a.Webhook}) {
		return
	}
	k.write(ctx, a)
}

func (k *logKeeper) write(ctx context.Context, a *Attempt) bool {
	// The sender may be gone; what it did is kept all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepWithin)
	defer cancel()
	if err := k.store.KeepAttempt(ctx, a); err != nil {
		k.log.WarnContext(ctx, "entry of the delivery log is lost", telemetry.KeyNamespace, a.Namespace, "webhook", a.Webhook,
			"outcome", a.Outcome, telemetry.KeyErr, err)
		return false
	}
	a.stored = true
	return true
}

func (k *logKeeper) allow(hook HookName) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	r := k.hooks[hook]
	if r == nil {
		r = &rejections{left: rejectedBurst, at: now}
		k.hooks[hook] = r
	}
	r.left = min(rejectedBurst, r.left+now.Sub(r.at).Seconds()/rejectedEvery.Seconds())
	r.at = now
	if r.left >= 1 {
		r.left--
		return true
	}
	if r.omitted == 0 {
		r.since = now
	}
	r.omitted++
	return false
}

// flush writes what was counted, one entry for each webhook.
func (k *logKeeper) flush(ctx context.Context) {
	for hook, r := range k.take() {
		id, err := uuid.NewV7()
		if err != nil {
			return
		}
		a := &Attempt{
			ID: DeliveryID(id.String()), Namespace: hook.Namespace, Webhook: hook.Name, Outcome: OutcomeRejected, Reason: ReasonNotLogged,
			Detail: "rejected requests that came too fast to be logged one by one", ReceivedAt: r.since, Took: k.now().Sub(r.since), Count: r.omitted,
		}
		if !k.write(ctx, a) {
			k.giveBack(hook, r)
		}
	}
}

func (k *logKeeper) take() map[HookName]rejections {
	k.mu.Lock()
	defer k.mu.Unlock()
	counted := map[HookName]rejections{}
	for hook, r := range k.hooks {
		switch {
		case r.omitted > 0:
			counted[hook] = *r
			r.omitted = 0
		case k.now().Sub(r.at) > time.Hour:
			delete(k.hooks, hook)
		}
	}
	return counted
}

func (k *logKeeper) giveBack(hook HookName, r rejections) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if have := k.hooks[hook]; have != nil {
		have.omitted += r.omitted
		have.since = r.since
		return
	}
	k.hooks[hook] = &r
}

// run writes what was counted and forgets what is older than retention, until
// ctx ends.
func (k *logKeeper) run(ctx context.Context, retention time.Duration) {
	flush, sweep := time.NewTicker(omittedEvery), time.NewTicker(sweepEvery)
	defer flush.Stop()
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			k.flush(context.WithoutCancel(ctx))
			return
		case <-flush.C:
			k.flush(ctx)
		case <-sweep.C:
			if err := k.sweep(ctx, retention); err != nil && ctx.Err() == nil {
				k.log.WarnContext(ctx, "sweep of the delivery log failed", telemetry.KeyErr, err)
			}
		}
	}
}

// How the log is swept: now and then, a batch a transaction.
const (
	sweepEvery = 5 * time.Minute
	sweepBatch = 1000
)

func (k *logKeeper) sweep(ctx context.Context, retention time.Duration) error {
	for ctx.Err() == nil {
		n, err := k.store.SweepAttempts(ctx, retention, sweepBatch)
		if err != nil || n < sweepBatch {
			return err
		}
	}
	return ctx.Err()
}
