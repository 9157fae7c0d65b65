package bus_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/natsdev"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Processes may start in any order: NATS last, the one that provisions later.
func TestConnect_BeforeTheServerAndTheStreams(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.stop()
	early := s.connect("early")
	if err := early.Ready(t.Context()); !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("ready without a server = %v, want ErrDisconnected", err)
	}
	var ran atomic.Int32
	consume(t, early, bus.Consumption{Handle: func(context.Context, events.Received) error { ran.Add(1); return nil }})
	tail := follow(t, early, 1)
	s.start()
	eventually(t, 5*time.Second, "connected", func() bool { return early.Ready(t.Context()) == nil })
	if err := early.Publish(t.Context(), fact(1)); err == nil {
		t.Error("published into a stream that nobody has set up")
	}
	late := s.provisioned("late")
	publish(t, late, fact(2), event(3))
	eventually(t, 5*time.Second, "handled", func() bool { return ran.Load() == 1 })
	wantLog(t, tail, "event:3@1")
}

func TestConnect_BadAddress(t *testing.T) {
	t.Parallel()
	if b, err := bus.Connect(t.Context(), bus.Config{URL: "nats://[::1"}); err == nil {
		b.Close()
		t.Error("accepted an address that cannot be parsed")
	}
}

func TestConnect_InProcess(t *testing.T) {
	t.Parallel()
	dev, err := natsdev.Start(t.Context(), natsdev.Config{Dir: t.TempDir(), DontListen: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dev.Stop)
	b, err := bus.Connect(t.Context(), bus.Config{InProcess: dev.InProcess(), URL: config.Secret(dev.URL())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if err := b.Provision(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	publish(t, b, fact(1))
}

// Close gives back what handlers hold, and nothing works afterwards.
func TestClose(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	a, b := s.provisioned("a"), s.connect("b")
	started := make(chan struct{})
	if _, err := a.Consume(t.Context(), bus.Consumption{Stream: events.StreamRuns, Durable: events.ConsumerRunner,
		Handle: func(ctx context.Context, _ events.Received) error { close(started); <-ctx.Done(); return ctx.Err() }}); err != nil {
		t.Fatal(err)
	}
	publish(t, a, fact(1))
	<-started
	moved := make(chan struct{})
	consume(t, b, bus.Consumption{Handle: func(context.Context, events.Received) error { close(moved); return nil }})
	begin := time.Now()
	a.Close()
	a.Close()
	select {
	case <-moved:
	case <-time.After(5 * time.Second):
		t.Fatal("never handed over")
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("handed over after %v", took)
	}
	if err := a.Publish(t.Context(), fact(2)); !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("publish after Close = %v, want ErrDisconnected", err)
	}
	if _, err := a.Consume(t.Context(), bus.Consumption{Stream: events.StreamRuns, Durable: events.ConsumerRunner, Handle: func(context.Context, events.Received) error { return nil }}); err == nil {
		t.Error("consume after Close")
	}
}

func TestConsume_RefusesHalfASetting(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.connect("a")
	for _, c := range []bus.Consumption{{}, {Stream: events.StreamRuns, Durable: events.ConsumerRunner},
		{Handle: func(context.Context, events.Received) error { return nil }}} {
		if _, err := b.Consume(t.Context(), c); err == nil {
			t.Errorf("accepted %+v", c)
		}
	}
}
