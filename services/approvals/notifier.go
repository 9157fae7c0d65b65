package approvals

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Notices keeps what people are to be told.
type Notices interface {
	// Take begins an attempt of up to limit notices that are due, or whose attempt
	// nobody reported within lease, by the database's clock.
	Take(ctx context.Context, limit int, lease time.Duration) ([]Notice, error)
	// Finish records what the n-th attempt came to. It changes nothing when another
	// attempt has begun.
	Finish(ctx context.Context, id events.NoticeID, n int, r Result, d Delivery) error
	// Split makes a notice to a channel one to each person, of which this one is
	// the first's.
	Split(ctx context.Context, id events.NoticeID, n int, people []string) error
	// TakeUpdates begins an attempt to change up to limit messages whose requests
	// have ended. FinishUpdate says that nothing is left to do.
	TakeUpdates(ctx context.Context, limit int) ([]Notice, error)
	FinishUpdate(ctx context.Context, id events.NoticeID) error
}

// NotifierDeps are what a notifier works with; all are required.
type NotifierDeps struct {
	Notices  Notices
	Links    Links
	Requests interface {
		Get(ctx context.Context, namespace string, id events.ApprovalID) (Request, error) // ErrNotFound
	}
	Channels []Channel
	// Definition is what the name of a channel means now; ErrNoChannel.
	Definition func(ctx context.Context, namespace, name string) (*spec.Channel, error)
	// PublicURL is where people reach the doors; nil, or empty: links lead nowhere,
	// and none are sent.
	PublicURL func() string
	// Digests and DigestChannels, the channels that have one: nil: there are none.
	Digests        Digests
	DigestChannels func(ctx context.Context) ([]DigestChannel, error)
	Log            *slog.Logger
	Metrics        *Metrics // nil: nothing is counted
}

// Notifier sends what is due. Several processes may run one each.
type Notifier struct {
	NotifierDeps
	kick chan struct{}
}

// NewNotifier returns a notifier that does nothing until it is run.
func NewNotifier(d NotifierDeps) *Notifier {
	return &Notifier{NotifierDeps: d, kick: make(chan struct{}, 1)}
}

// Kick looks for what is due now instead of at the next look. It never blocks.
func (x *Notifier) Kick() {
	if x == nil {
		return
	}
	select {
	case x.kick <- struct{}{}:
	default:
	}
}

// sendAtOnce is how many attempts one process makes at the same time.
const sendAtOnce = 8

// Run sends until ctx ends. It waits for attempts under way, so that what was
// taken is recorded.
func (x *Notifier) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { x.updates(ctx) })
	wg.Go(func() { x.digests(ctx) })
	free := make(chan struct{}, sendAtOnce)
	for ctx.Err() == nil {
		found, err := x.Notices.Take(ctx, sendAtOnce-len(free), attemptLease)
		if err != nil && ctx.Err() == nil {
			x.Log.WarnContext(ctx, "notices that are due cannot be read", telemetry.KeyErr, err)
		}
		for _, n := range found {
			free <- struct{}{}
			wg.Go(func() {
				x.attempt(context.WithoutCancel(ctx), n)
				<-free
				x.Kick() // there is room again
			})
		}
		if len(found) > 0 && len(free) < sendAtOnce {
			continue
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-x.kick:
		}
	}
	return nil
}

// attempt makes one attempt that is recorded as begun, and records what it came to.
func (x *Notifier) attempt(ctx context.Context, n Notice) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	log := x.Log.With("notice", n.NoticeID, "channel", n.Channel, telemetry.KeyAttempt, n.Attempts)
	if err := failpoint.Hit("approvals.telling", string(n.NoticeID)); err != nil {
		return // as if the process had ended here
	}
	d, repeats := x.send(ctx, &n)
	if err := failpoint.Hit("approvals.told", string(n.NoticeID)); err != nil {
		return // as if the process had ended here
	}
	r := Conclude(d, repeats, n.Attempts, time.Since(n.CreatedAt))
	if d.Verdict == gone {
		r = Result{State: NoticeGone}
	}
	d.Problem = clean(d.Problem, 500, false)
	// What came of it is worth more than the attempt's time.
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := x.Notices.Finish(ctx, n.NoticeID, n.Attempts, r, d); err != nil {
		log.WarnContext(ctx, "outcome of a notice not recorded; it counts as lost", telemetry.KeyErr, err)
		return
	}
	x.Metrics.told(ctx, r.State)
	if r.State == NoticeFailed || r.State == NoticeUnknown {
		log.ErrorContext(ctx, "notice not known to be delivered", "state", r.State, "reason", d.Problem)
	}
}

func (x *Notifier) send(ctx context.Context, n *Notice) (d Delivery, repeats bool) {
	def, by, err := x.channelOf(ctx, *n)
	asks := n.Reason == events.NoticeApproval
	// Of a request a second message does no harm: it is decided once.
	repeats = asks || by != nil && by.Repeats()
	switch {
	case n.Lost && !repeats:
		return Delivery{Verdict: Uncertain, Problem: "the process that sent it was lost before it recorded what came of it"}, false
	case err != nil:
		return Delivery{Problem: err.Error()}, repeats
	case asks:
		return x.ask(ctx, def, by, n), true
	}
	m := Tell(n.Notice)
	if n.Reason == events.NoticeDigest && x.PublicURL != nil && x.PublicURL() != "" {
		m.Hint = x.PublicURL() + inboxPath
	}
	return by.Send(ctx, def, m), repeats
}

// channelOf finds the definition of a notice's channel and who sends to it.
func (x *Notifier) channelOf(ctx context.Context, n Notice) (def *spec.Channel, by Channel, err error) {
	def, err = x.Definition(ctx, n.Namespace, n.Channel)
	if err != nil && !errors.Is(err, ErrNoChannel) {
		err = errors.New("the definition of the channel cannot be read now")
	}
	if err == nil {
		for _, c := range x.Channels {
			if c.Runs(def) {
				by = c
			}
		}
		if by == nil {
			err = fmt.Errorf("channel %s: this release cannot send to it", n.Channel)
		}
	}
	return def, by, err
}
