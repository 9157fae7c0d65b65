package bus_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/pkg/events"
)

func TestRestart_ConsumersResume(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("a")
	var ran atomic.Int32
	consume(t, b, bus.Consumption{Workers: 4, Handle: func(context.Context, events.Received) error { ran.Add(1); return nil }})
	var stepped atomic.Int32
	consume(t, b, bus.Consumption{Stream: events.StreamRuns, Durable: events.ConsumerRunnerStep, Slots: newSlots(2),
		Handle: func(context.Context, events.Received) error { stepped.Add(1); return nil }})
	publish(t, b, fact(1))
	eventually(t, 5*time.Second, "first", func() bool { return ran.Load() == 1 })
	for round := range int32(2) {
		s.stop()
		if err := b.Ready(t.Context()); err == nil && round == 0 {
			// The client may need a moment to notice.
			eventually(t, 2*time.Second, "not ready", func() bool { return b.Ready(t.Context()) != nil })
		}
		s.start()
		begin := time.Now()
		publish(t, b, fact(int(10+round)))
		step := fact(int(100 + round))
		step.Subject = events.RunSubject(events.NewRunID(), events.RunStep)
		publish(t, b, step)
		eventually(t, 5*time.Second, "handled after the restart", func() bool { return ran.Load() == 2+round && stepped.Load() == 1+round })
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("resumed after %v", took)
		}
	}
}

// working consumes facts until one handler is at work, which lasts until
// release is closed.
func working(t *testing.T, b *bus.Bus) (runs *atomic.Int32, release chan struct{}) {
	t.Helper()
	runs, release = &atomic.Int32{}, make(chan struct{})
	consume(t, b, bus.Consumption{Workers: 4, Handle: func(context.Context, events.Received) error {
		runs.Add(1)
		<-release
		return nil
	}})
	publish(t, b, fact(1))
	eventually(t, 5*time.Second, "working", func() bool { return runs.Load() == 1 })
	return runs, release
}

// A handler that works through a restart is not run again: the redelivery is
// adopted, and its acknowledgement reaches the new server.
func TestRestart_HeldMessageIsAdopted(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("a")
	runs, release := working(t, b)
	s.stop()
	time.Sleep(bus.AckWait + 200*time.Millisecond) // it is overdue when the server comes back
	s.start()
	eventually(t, 5*time.Second, "redelivered", func() bool {
		lag, err := b.Lag(t.Context(), events.StreamRuns, events.ConsumerRunner)
		return err == nil && lag.Redelivered == 1
	})
	close(release)
	eventually(t, 5*time.Second, "acknowledged", empty(t, b, events.ConsumerRunner))
	if got := runs.Load(); got != 1 {
		t.Errorf("handler ran %d times, want once", got)
	}
}

// A handler that finishes while NATS is away acknowledges when it is back.
func TestRestart_AckWaitsForTheServer(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("a")
	runs, release := working(t, b)
	s.stop()
	close(release)
	time.Sleep(300 * time.Millisecond) // finished, and cannot say so
	s.start()
	eventually(t, 5*time.Second, "acknowledged", empty(t, b, events.ConsumerRunner))
	if got := runs.Load(); got != 1 {
		t.Errorf("handler ran %d times, want once", got)
	}
}

// A consumer is told to stop while NATS is away, and pulls no more when it is back. The
// handler that still works acknowledges all the same, and the stop waits for that alone.
func TestRestart_AckOfAConsumerThatStops(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("a")
	var runs atomic.Int32
	release := make(chan struct{})
	k, err := b.Consume(t.Context(), bus.Consumption{Stream: events.StreamRuns, Durable: events.ConsumerRunner, Handle: func(context.Context, events.Received) error {
		runs.Add(1)
		<-release
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, b, fact(1))
	eventually(t, 5*time.Second, "working", func() bool { return runs.Load() == 1 })
	s.stop()
	eventually(t, 5*time.Second, "not ready", func() bool { return b.Ready(t.Context()) != nil })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- k.Stop(ctx) }()
	time.Sleep(100 * time.Millisecond) // its loop has ended
	s.start()
	close(release)
	if err := <-stopped; err != nil || ctx.Err() != nil {
		t.Errorf("the stop took all of its time: %v, %v", err, ctx.Err())
	}
	eventually(t, 5*time.Second, "acknowledged", empty(t, b, events.ConsumerRunner))
	if got := runs.Load(); got != 1 {
		t.Errorf("handler ran %d times, want once", got)
	}
}

// NATS comes back without its data: the streams are set up again, and the
// acknowledgement of an old message does not hit the new one with its number.
func TestRestart_DataLoss(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("a")
	var seen log
	release := make(chan struct{})
	consume(t, b, bus.Consumption{Workers: 1, Handle: func(_ context.Context, m events.Received) error {
		seen.add(fmt.Sprintf("%s seq %d", m.ID, m.StreamSeq))
		if m.ID == "signal:1" {
			<-release
		}
		return nil
	}})
	publish(t, b, fact(1))
	eventually(t, 5*time.Second, "working", func() bool { return seen.count() == 1 })
	s.stop()
	s.wipe()
	s.start()
	publish(t, b, fact(2)) // sets the streams up again; sequence 1 once more
	close(release)
	eventually(t, 6*time.Second, "the new message is handled", func() bool { return seen.count() == 2 })
	eventually(t, 5*time.Second, "acknowledged", empty(t, b, events.ConsumerRunner))
	if got, want := fmt.Sprint(seen.all()), "[signal:1 seq 1 signal:2 seq 1]"; got != want {
		t.Errorf("seen %s, want %s", got, want)
	}
	// The consumer goes on.
	publish(t, b, fact(3))
	eventually(t, 5*time.Second, "the next one too", func() bool { return seen.count() == 3 })
}

// A consumer that only listens notices the loss by itself.
func TestRestart_DataLossIsNoticedByConsumers(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("a")
	var ran atomic.Int32
	consume(t, b, bus.Consumption{Stream: events.StreamTools, Durable: events.ToolConsumer("default"),
		Handle: func(context.Context, events.Received) error { ran.Add(1); return nil }})
	s.stop()
	s.wipe()
	s.start()
	eventually(t, 6*time.Second, "set up again", func() bool {
		_, err := b.Lag(t.Context(), events.StreamTools, events.ToolConsumer("default"))
		return err == nil
	})
	m := fact(1)
	m.Subject = events.ToolSubject("default", events.NewCallID(events.NewRunID(), 2, 0))
	publish(t, b, m)
	eventually(t, 5*time.Second, "handled", func() bool { return ran.Load() == 1 })
}

func TestConsume_DeletedDurableComesBack(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("a")
	var ran atomic.Int32
	consume(t, b, bus.Consumption{Handle: func(context.Context, events.Received) error { ran.Add(1); return nil }})
	publish(t, b, fact(1))
	eventually(t, 5*time.Second, "first", func() bool { return ran.Load() == 1 })
	_, js := s.raw()
	if err := js.DeleteConsumer(t.Context(), events.StreamRuns, events.ConsumerRunner); err != nil {
		t.Fatal(err)
	}
	publish(t, b, fact(2))
	eventually(t, 6*time.Second, "second", func() bool { return ran.Load() == 2 })
}

func TestPublish_WhileAway(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("a")
	s.stop()
	eventually(t, 2*time.Second, "noticed", func() bool { return b.Ready(t.Context()) != nil })

	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := b.Publish(ctx, fact(1)); !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("publish without a server = %v, want ErrDisconnected", err)
	}
	// A publisher that can wait gets through.
	result := make(chan error, 1)
	go func() { result <- b.Publish(t.Context(), fact(2)) }()
	time.Sleep(100 * time.Millisecond) // it waits for the server
	s.start()
	if err := <-result; err != nil {
		t.Errorf("publish across a restart = %v", err)
	}
	eventually(t, 5*time.Second, "only the second is stored", func() bool {
		lag, err := b.Lag(t.Context(), events.StreamRuns, events.ConsumerRunner)
		return err == nil && lag.Pending == 1
	})
}
