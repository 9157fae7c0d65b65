package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/telemetry"
)

// Config says which NATS to use.
type Config struct {
	// URL is one or more nats:// URLs, comma separated. Unused with InProcess.
	URL config.Secret
	// Name is shown in the server's connection list.
	Name string
	// InProcess connects to a server inside this process, without a socket.
	InProcess nats.InProcessConnProvider
	// Replicas of every stream that Provision sets up; zero means 1.
	Replicas int
	// Silence is how long the line may say nothing, not even an answer to a ping,
	// before it is given up and made anew; zero means nine seconds.
	Silence time.Duration
	// Credentials are not used with InProcess.
	Credentials
	// Services run over this connection, which gives it its inbox. With Own they set
	// up the streams that are theirs (Owned) and no others, which wait for their
	// owners; a NATS user of PermissionsOf may do no more.
	Services []string
	Own      bool
	Log      *slog.Logger
}

// ErrDisconnected says that there was no connection to NATS for as long as the
// caller was ready to wait. Nothing was sent.
var ErrDisconnected = errors.New("not connected to NATS")

const (
	apiTimeout     = 5 * time.Second
	silence        = 9 * time.Second
	reconnectAfter = 250 * time.Millisecond
)

// Bus is one connection to NATS. It is safe for concurrent use.
type Bus struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	log      *slog.Logger
	replicas int
	owned    []string // streams that may be set up; nil = all
	held     *heldTable

	mu        sync.Mutex
	closed    bool
	consumers map[*Consumer]struct{}
	changed   chan struct{} // closed and replaced when the connection went or came

	provisioning sync.Mutex
	provisioned  bool
	pools        []string

	stopPulse context.CancelFunc
	pulsing   sync.WaitGroup
}

// Connect returns at once even when no server answers: the connection is made,
// and made again for ever, in the background. An address that cannot be parsed
// is an error. Ready says whether there is a connection.
func Connect(ctx context.Context, c Config) (*Bus, error) {
	b := &Bus{
		log: c.Log, replicas: max(c.Replicas, 1), held: newHeldTable(),
		consumers: map[*Consumer]struct{}{}, changed: make(chan struct{}),
	}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	if c.Own {
		b.owned = []string{}
		for _, s := range c.Services {
			b.owned = append(b.owned, Owned(s)...)
		}
	}
	quiet := cmp.Or(c.Silence, silence)
	opts := []nats.Option{
		nats.Name(c.Name),
		nats.CustomInboxPrefix(Inbox(c.Services...)),
		nats.IgnoreAuthErrorAbort(), // a password that changes here and there at different moments
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1), // the default gives up after two minutes, for ever
		nats.ReconnectWait(reconnectAfter),
		nats.ReconnectJitter(100*time.Millisecond, 250*time.Millisecond),
		// A line that was dropped without a word: the third ping in a row finds two
		// without an answer. Who writes at one must not wait longer than who reads.
		nats.PingInterval(quiet / 3),
		nats.MaxPingsOutstanding(2),
		nats.FlusherTimeout(quiet),
		nats.Timeout(apiTimeout),
		// Nothing is buffered while the line is down. What was sent is then
		// known, and no acknowledgement reaches a server whose streams are new.
		nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			b.log.Warn("nats disconnected", telemetry.KeyErr, err)
			b.notifyChanged()
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			b.log.Info("nats reconnected", "server", nc.ConnectedUrlRedacted())
			b.notifyChanged()
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			attrs := []any{telemetry.KeyErr, err}
			if sub != nil {
				attrs = append(attrs, "subject", sub.Subject)
			}
			b.log.Error("nats reported an error", attrs...) // a denied publish shows up only here
		}),
	}
	if c.InProcess != nil {
		opts = append(opts, nats.InProcessServer(c.InProcess))
	} else {
		more, err := c.Credentials.options()
		if err != nil {
			return nil, fmt.Errorf("connect to NATS: %w", err)
		}
		opts = append(opts, more...)
	}
	nc, err := nats.Connect(c.URL.Reveal(), opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	b.nc = nc
	if b.js, err = jetstream.New(nc, jetstream.WithDefaultTimeout(apiTimeout), jetstream.WithPublishAsyncTimeout(publishTimeout)); err != nil {
		nc.Close()
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	pulseCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.stopPulse = stop
	b.pulsing.Go(func() { b.pulse(pulseCtx) })
	return b, nil
}

// Ready reports whether the server answers.
func (b *Bus) Ready(ctx context.Context) error {
	if !b.nc.IsConnected() {
		return ErrDisconnected
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if err := b.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("ask NATS: %w", err)
	}
	return nil
}

// Close stops every consumer, hands what they hold to others and closes the
// connection. Stop the consumers first to let their handlers finish.
func (b *Bus) Close() {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return
	}
	b.closed = true
	consumers := make([]*Consumer, 0, len(b.consumers))
	for c := range b.consumers {
		consumers = append(consumers, c)
	}
	b.mu.Unlock()

	now, cancel := context.WithCancel(context.Background())
	cancel()
	var wg sync.WaitGroup
	for _, c := range consumers {
		wg.Go(func() { _ = c.Stop(now) })
	}
	wg.Wait()
	b.stopPulse()
	b.pulsing.Wait()
	if b.nc.IsConnected() {
		_ = b.nc.FlushTimeout(time.Second)
	}
	b.nc.Close()
}

// waitConnected returns nil when there is a connection, else ErrDisconnected
// when ctx ends.
func (b *Bus) waitConnected(ctx context.Context) error {
	for !b.nc.IsConnected() {
		changed := b.watch()
		if b.nc.IsConnected() {
			return nil
		}
		if b.nc.IsClosed() {
			return ErrDisconnected
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrDisconnected, context.Cause(ctx))
		case <-changed:
		case <-time.After(20 * time.Millisecond): // the first connect has no notice
		}
	}
	return nil
}

// watch returns a channel that is closed at the next change of the connection.
func (b *Bus) watch() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

func (b *Bus) notifyChanged() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.changed)
	b.changed = make(chan struct{})
}

// connection numbers the connections of this Bus; it rises with each reconnect.
func (b *Bus) connection() int64 { return int64(b.nc.Stats().Reconnects) }
