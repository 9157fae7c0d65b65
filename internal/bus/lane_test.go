package bus_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// lane gives what is free to whoever asks.
type lane struct {
	*slots
	more atomic.Bool
}

func (l *lane) Await(done <-chan struct{}) int {
	for {
		if l.TryAcquire() {
			return 1
		}
		select {
		case <-done:
			return 0
		case <-time.After(time.Millisecond):
		}
	}
}

func (l *lane) More(more bool) { l.more.Store(more) }

func step(what string) events.Message {
	m := fact(1)
	id := events.NewRunID()
	m.Subject, m.ID, m.MsgID = events.RunSubject(id, what), "step:"+string(id), "step:"+string(id)
	return m
}

// A lane's message that finds no slot goes to a process that has one, at once; the
// busy process knows that the lane waits.
func TestLane_NoSlotHandsOver(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	a, b := s.provisioned("busy"), s.connect("idle")
	what := events.RunStepLane(events.PriorityBatch, 3)
	busy := &lane{slots: newSlots(1)}
	consume(t, a, bus.Consumption{Stream: events.StreamRuns, Durable: events.StepConsumer(what), Lane: busy, Handle: func(context.Context, events.Received) error {
		t.Error("the busy process got the message")
		return nil
	}})
	eventually(t, 2*time.Second, "slot taken by other work", busy.TryAcquire)
	publish(t, a, step(what))
	eventually(t, 5*time.Second, "the busy process knows", busy.more.Load)
	got := make(chan struct{})
	consume(t, b, bus.Consumption{Stream: events.StreamRuns, Durable: events.StepConsumer(what), Lane: &lane{slots: newSlots(1)}, Handle: func(context.Context, events.Received) error {
		close(got)
		return nil
	}})
	select {
	case <-got:
	case <-time.After(5 * time.Second):
		t.Fatal("nobody took the message")
	}
	busy.Release()
	eventually(t, 5*time.Second, "the lane is known to be empty", func() bool { return !busy.more.Load() })
}

func TestLane_NeverMoreThanSlotsAndAllOfThem(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("worker")
	l := &lane{slots: newSlots(4)}
	what := events.RunStepLane(events.PriorityInteractive, 0)
	var now, most, ran atomic.Int32
	consume(t, b, bus.Consumption{Stream: events.StreamRuns, Durable: events.StepConsumer(what), Lane: l, Handle: func(context.Context, events.Received) error {
		for n := now.Add(1); ; {
			if old := most.Load(); n <= old || most.CompareAndSwap(old, n) {
				break
			}
		}
		time.Sleep(5 * time.Millisecond) // the work itself
		now.Add(-1)
		ran.Add(1)
		return nil
	}})
	for range 60 {
		publish(t, b, step(what))
	}
	eventually(t, 20*time.Second, "all handled", func() bool { return ran.Load() == 60 && empty(t, b, events.StepConsumer(what))() })
	if got := most.Load(); got > 4 {
		t.Errorf("at most %d handlers ran at once, want 4", got)
	}
	eventually(t, 2*time.Second, "all slots are free while waiting", func() bool { return l.free() == 4 })
	if over := l.over.Load(); over != 0 {
		t.Errorf("%d slots were released that nobody had taken", over)
	}
}

// An older release sets up what it knows, over what this one has set up and the
// other way round: every lane keeps its consumer and its messages.
func TestProvision_BesideAReleaseWithoutLanes(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	_, js := s.raw()
	older := func() {
		t.Helper()
		if _, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: events.StreamRuns, Subjects: []string{"hf.run.*.*"}, Storage: jetstream.FileStorage,
			Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew, MaxBytes: 256 << 20, Duplicates: 30 * time.Second}); err != nil {
			t.Fatal(err)
		}
		if _, err := js.CreateOrUpdateConsumer(t.Context(), events.StreamRuns, jetstream.ConsumerConfig{Durable: "runner-step", FilterSubjects: []string{"hf.run.*.step"},
			DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckExplicitPolicy, AckWait: bus.AckWait, MaxDeliver: -1, MaxAckPending: 4096}); err != nil {
			t.Fatal(err)
		}
	}
	older()
	b := s.connect("newer")
	// Its steps lie there already, and one of a lane whose consumer nobody has made.
	what := events.RunStepLane(events.PriorityInteractive, 5)
	publish(t, b, step(events.RunStep), step(what))
	if err := b.Provision(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	older()
	publish(t, b, step(events.RunStepLane(events.PriorityBatch, 7)), step(events.RunStep))
	var ran atomic.Int32
	for _, what := range events.StepKinds() {
		consume(t, b, bus.Consumption{Stream: events.StreamRuns, Durable: events.StepConsumer(what), Lane: &lane{slots: newSlots(2)},
			Handle: func(context.Context, events.Received) error { ran.Add(1); return nil }})
	}
	eventually(t, 10*time.Second, "every step is taken", func() bool { return ran.Load() == 4 })
}
