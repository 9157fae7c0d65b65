package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/internal/lifecycle"
	"github.com/holdfast-run/holdfast/pkg/events"
)

func TestConsume_ResultDecides(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		first      error // what the first delivery returns; the second returns nil
		rejectErr  error // what the first Reject returns
		wantRuns   int
		wantCode   string        // of the last Reject
		wantAtMost time.Duration // between the first two deliveries
		wantAtMin  time.Duration
	}{
		"nil leaves the queue":              {first: nil, wantRuns: 1},
		"a lost claim waits for the owner":  {first: fault.ErrLost, wantRuns: 2, wantAtMin: 1500 * time.Millisecond, wantAtMost: 3 * time.Second},
		"a terminal fault leaves the queue": {first: fault.Terminal("unknown_run", errors.New("no such run")), wantRuns: 1, wantCode: "unknown_run"},
		"a failed reject brings it back":    {first: fault.Terminal("unknown_run", errors.New("no such run")), rejectErr: errors.New("database away"), wantRuns: 2, wantCode: "unknown_run", wantAtMin: 100 * time.Millisecond, wantAtMost: time.Second},
		"a named wait is waited":            {first: fault.RetryAfter(600*time.Millisecond, errors.New("busy")), wantRuns: 2, wantAtMin: 450 * time.Millisecond, wantAtMost: 1500 * time.Millisecond},
		"any other error backs off":         {first: errors.New("refused"), wantRuns: 2, wantAtMin: 100 * time.Millisecond, wantAtMost: time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			b := s.provisioned("worker")
			var times log
			var codes log
			at := make(chan time.Time, 10)
			consume(t, b, bus.Consumption{
				Handle: func(_ context.Context, m events.Received) error {
					at <- time.Now()
					times.add(m.ID)
					if times.count() == 1 {
						return tc.first
					}
					return nil
				},
				Reject: func(_ context.Context, m events.Received, code string, err error) error {
					codes.add(code)
					if codes.count() == 1 && tc.rejectErr != nil {
						return tc.rejectErr
					}
					return nil
				},
			})
			publish(t, b, fact(1))
			eventually(t, 8*time.Second, "the queue is empty", func() bool {
				return times.count() >= tc.wantRuns && empty(t, b, events.ConsumerRunner)()
			})
			if got := times.count(); got != tc.wantRuns {
				t.Errorf("handler ran %d times, want %d", got, tc.wantRuns)
			}
			if tc.wantRuns == 2 {
				if gap := -(<-at).Sub(<-at); gap < tc.wantAtMin || gap > tc.wantAtMost {
					t.Errorf("second delivery after %v, want %v to %v", gap, tc.wantAtMin, tc.wantAtMost)
				}
			}
			got := codes.all()
			if tc.wantCode == "" && len(got) > 0 || tc.wantCode != "" && (len(got) == 0 || got[len(got)-1] != tc.wantCode) {
				t.Errorf("rejected with %v, want %q", got, tc.wantCode)
			}
		})
	}
}

func TestConsume_UndecodableIsRejected(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("worker")
	nc, _ := s.raw()
	var rejected log
	consume(t, b, bus.Consumption{
		Handle: func(context.Context, events.Received) error { return errors.New("must not run") },
		Reject: func(_ context.Context, m events.Received, code string, err error) error {
			if !errors.Is(err, events.ErrEnvelope) {
				t.Errorf("reject error = %v, want ErrEnvelope", err)
			}
			rejected.add(fmt.Sprintf("%s %s %s %d", code, m.Subject, m.Data, m.StreamSeq))
			return nil
		},
	})
	subject := events.RunSubject(events.NewRunID(), events.RunSignal)
	if err := nc.Publish(subject, []byte("rubbish")); err != nil {
		t.Fatal(err)
	}
	want := "decode " + subject + " rubbish 1"
	eventually(t, 5*time.Second, "rejected and gone", func() bool {
		return rejected.count() == 1 && empty(t, b, events.ConsumerRunner)()
	})
	if got := rejected.all()[0]; got != want {
		t.Errorf("rejected %q, want %q", got, want)
	}
}

func TestConsume_PanicIsTerminal(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("worker")
	var rejected log
	consume(t, b, bus.Consumption{
		Handle: func(context.Context, events.Received) error { panic("impossible state") },
		Reject: func(_ context.Context, _ events.Received, code string, err error) error {
			if !strings.Contains(err.Error(), "impossible state") || !strings.Contains(err.Error(), "consume_test.go") {
				t.Errorf("error lacks the reason or the stack: %v", err)
			}
			rejected.add(code)
			return nil
		},
	})
	publish(t, b, fact(1))
	eventually(t, 5*time.Second, "rejected and gone", func() bool {
		return rejected.count() == 1 && empty(t, b, events.ConsumerRunner)()
	})
	if got := rejected.all()[0]; got != bus.CodePanic {
		t.Errorf("code = %q, want %q", got, bus.CodePanic)
	}
}

// Without Reject a poisoned message stays, so that nothing is lost unseen.
func TestConsume_NobodyRejects(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("worker")
	var ran atomic.Int32
	consume(t, b, bus.Consumption{Handle: func(context.Context, events.Received) error {
		ran.Add(1)
		return fault.Terminal("x", errors.New("no use"))
	}})
	publish(t, b, fact(1))
	eventually(t, 5*time.Second, "handled", func() bool { return ran.Load() == 1 })
	eventually(t, 5*time.Second, "delayed", func() bool {
		lag, err := b.Lag(t.Context(), events.StreamRuns, events.ConsumerRunner)
		return err == nil && lag.AckPending == 1
	})
}

// A handler that runs longer than AckWait keeps its message while Hold says so.
func TestConsume_InProgressHolds(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	a, b := s.provisioned("a"), s.connect("b")
	var runs log
	handle := func(name string) bus.Consumption {
		return bus.Consumption{Handle: func(_ context.Context, m events.Received) error {
			runs.add(fmt.Sprintf("%s delivery %d", name, m.Delivered))
			time.Sleep(3*time.Second + 500*time.Millisecond) // the work itself
			return nil
		}}
	}
	consume(t, a, handle("a"))
	publish(t, a, fact(1))
	eventually(t, 5*time.Second, "a works", func() bool { return runs.count() == 1 })
	consume(t, b, handle("b"))
	eventually(t, 8*time.Second, "the queue is empty", empty(t, a, events.ConsumerRunner))
	if got := runs.all(); len(got) != 1 || got[0] != "a delivery 1" {
		t.Errorf("runs = %v, want one by a", got)
	}
}

// A worker whose heartbeat is late says nothing, and another gets the message.
func TestConsume_HoldFalseLetsGo(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	a, b := s.provisioned("a"), s.connect("b")
	var runs log
	release := make(chan struct{})
	consume(t, a, bus.Consumption{
		Hold: func() bool { return false },
		Handle: func(context.Context, events.Received) error {
			runs.add("a")
			<-release
			return fault.ErrLost
		},
	})
	publish(t, a, fact(1))
	eventually(t, 5*time.Second, "a works", func() bool { return runs.count() == 1 })
	start := time.Now()
	consume(t, b, bus.Consumption{Workers: 4, Handle: func(_ context.Context, m events.Received) error {
		runs.add("b")
		if !m.Redelivered() {
			t.Error("delivery to b is not marked as a redelivery")
		}
		return nil
	}})
	eventually(t, 6*time.Second, "b has it", func() bool { return runs.count() == 2 })
	if took := time.Since(start); took > bus.AckWait+1500*time.Millisecond {
		t.Errorf("b got it after %v", took)
	}
	close(release)
	eventually(t, 5*time.Second, "the queue is empty", empty(t, a, events.ConsumerRunner))
}

// A redelivery of what this process works on starts no second handler, and the
// acknowledgement goes out on the newest delivery.
func TestConsume_RedeliveryIsAdopted(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("a")
	var runs atomic.Int32
	consume(t, b, bus.Consumption{
		Workers: 4, // free workers pull while the handler runs
		Hold:    func() bool { return false },
		Handle: func(context.Context, events.Received) error {
			runs.Add(1)
			time.Sleep(5 * time.Second) // more than two AckWaits
			return nil
		},
	})
	publish(t, b, fact(1))
	redelivered := false
	eventually(t, 10*time.Second, "handled and gone", func() bool {
		lag, err := b.Lag(t.Context(), events.StreamRuns, events.ConsumerRunner)
		redelivered = redelivered || err == nil && lag.Redelivered > 0
		return runs.Load() > 0 && err == nil && lag.Pending == 0 && lag.AckPending == 0
	})
	if !redelivered {
		t.Error("the message was never redelivered; the test proves nothing")
	}
	if got := runs.Load(); got != 1 {
		t.Errorf("handler ran %d times, want once", got)
	}
}

func TestConsume_NeverMoreThanSlots(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("worker")
	slots := newSlots(16)
	var now, most, ran atomic.Int32
	full := make(chan struct{}) // all slots have been at work at once
	var fill sync.Once
	consume(t, b, bus.Consumption{Slots: slots, Handle: func(context.Context, events.Received) error {
		n := now.Add(1)
		if n == 16 {
			fill.Do(func() { close(full) })
		}
		for {
			if old := most.Load(); n <= old || most.CompareAndSwap(old, n) {
				break
			}
		}
		select {
		case <-full:
		case <-time.After(10 * time.Second):
		}
		time.Sleep(20 * time.Millisecond)
		now.Add(-1)
		ran.Add(1)
		return nil
	}})
	for i := range 200 {
		publish(t, b, fact(i))
	}
	eventually(t, 20*time.Second, "all handled", func() bool { return ran.Load() == 200 && empty(t, b, events.ConsumerRunner)() })
	if got := most.Load(); got != 16 {
		t.Errorf("at most %d handlers ran at once, want 16", got)
	}
	eventually(t, 2*time.Second, "all slots are free while waiting", func() bool { return slots.free() == 16 })
	if over := slots.over.Load(); over != 0 {
		t.Errorf("%d slots were released that nobody had taken", over)
	}
}

// A message that finds no slot goes to a worker that has one.
func TestConsume_NoSlotHandsOver(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	a, b := s.provisioned("busy"), s.connect("idle")
	busy := newSlots(1)
	consume(t, a, bus.Consumption{Slots: busy, Handle: func(context.Context, events.Received) error {
		t.Error("the busy worker got the message")
		return nil
	}})
	// The doorbell waits without a slot. Somebody else takes the slot then.
	time.Sleep(200 * time.Millisecond) // a pull is open by now
	eventually(t, 2*time.Second, "slot taken by other work", busy.TryAcquire)
	publish(t, a, fact(1))
	got := make(chan struct{})
	start := time.Now()
	consume(t, b, bus.Consumption{Slots: newSlots(1), Handle: func(context.Context, events.Received) error {
		close(got)
		return nil
	}})
	select {
	case <-got:
	case <-time.After(5 * time.Second):
		t.Fatal("nobody took the message")
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("hand over took %v", took)
	}
}

func TestConsume_StopHandsOverAtOnce(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	a, b := s.provisioned("a"), s.connect("b")
	started := make(chan struct{})
	k := consume(t, a, bus.Consumption{Workers: 8, Handle: func(ctx context.Context, _ events.Received) error {
		close(started)
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), lifecycle.ErrStopping) {
			t.Errorf("cause = %v, want ErrStopping", context.Cause(ctx))
		}
		return ctx.Err()
	}})
	publish(t, a, fact(1))
	<-started
	moved := make(chan time.Time, 1)
	consume(t, b, bus.Consumption{Handle: func(context.Context, events.Received) error {
		moved <- time.Now()
		return nil
	}})
	time.Sleep(100 * time.Millisecond) // b's pull is open
	begin := time.Now()
	stop(t, k, 0)
	select {
	case at := <-moved:
		if took := at.Sub(begin); took > 200*time.Millisecond {
			t.Errorf("handed over after %v, want under 200ms", took)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("never handed over")
	}
}

func TestConsume_StopLetsHandlersFinish(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("a")
	started := make(chan struct{})
	k := consume(t, b, bus.Consumption{Handle: func(ctx context.Context, _ events.Received) error {
		close(started)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(300 * time.Millisecond):
			return nil
		}
	}})
	publish(t, b, fact(1))
	<-started
	stop(t, k, 5*time.Second)
	eventually(t, time.Second, "acknowledged", empty(t, b, events.ConsumerRunner))
}

// While a consumer stops, nothing that was on its way to it waits for AckWait.
func TestConsume_StopLosesNoDelivery(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	a, b := s.provisioned("a"), s.connect("b")
	const n = 300
	var ran atomic.Int32
	handle := func(context.Context, events.Received) error { ran.Add(1); return nil }
	k := consume(t, a, bus.Consumption{Workers: 32, Handle: handle})
	consume(t, b, bus.Consumption{Workers: 32, Handle: handle})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range n {
			publish(t, b, fact(i))
		}
	}()
	eventually(t, 5*time.Second, "under way", func() bool { return ran.Load() > n/4 })
	stop(t, k, time.Second)
	<-done
	begin := time.Now()
	eventually(t, 5*time.Second, "all handled", func() bool { return ran.Load() >= n && empty(t, b, events.ConsumerRunner)() })
	if took := time.Since(begin); took > time.Second {
		t.Errorf("the rest took %v; a delivery was stranded", took)
	}
}

func TestConsume_TraceTravels(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("a")
	const tp = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	got := make(chan string, 2)
	consume(t, b, bus.Consumption{Handle: func(ctx context.Context, m events.Received) error {
		// What this handler publishes joins the same trace.
		next := fact(2)
		next.Subject = events.RunEventSubject(events.NewRunID())
		got <- m.TraceParent
		return b.Publish(ctx, next)
	}})
	tail := make(chan events.Received, 1)
	go func() { _ = b.TailEvents(t.Context(), 1, func(m events.Received) { tail <- m }) }()
	m := fact(1)
	m.TraceParent = tp
	publish(t, b, m)
	if g := <-got; g != tp {
		t.Errorf("traceparent = %q, want %q", g, tp)
	}
	select {
	case m := <-tail:
		if !strings.HasPrefix(m.TraceParent, tp[:35]) {
			t.Errorf("published traceparent = %q, want the trace of %q", m.TraceParent, tp)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("no event")
	}
}

// Programs that are not ours publish on IN without an envelope.
func TestConsume_ForeignMessage(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("a")
	nc, _ := s.raw()
	got := make(chan events.Received, 3)
	consume(t, b, bus.Consumption{Stream: events.StreamIn, Durable: events.ConsumerTrigger,
		Handle: func(_ context.Context, m events.Received) error { got <- m; return nil }})
	send := func(h nats.Header) events.Received {
		t.Helper()
		if err := nc.PublishMsg(&nats.Msg{Subject: events.InSubject("shop"), Header: h, Data: []byte(`{"agent":"a"}`)}); err != nil {
			t.Fatal(err)
		}
		select {
		case m := <-got:
			return m
		case <-time.After(5 * time.Second):
			t.Fatal("not delivered")
			return events.Received{}
		}
	}
	if m := send(nats.Header{"Nats-Msg-Id": {"order-7"}}); m.ID != "order-7" || m.Type != events.TypeStartRequest {
		t.Errorf("id %q type %q, want order-7 and the start request", m.ID, m.Type)
	}
	if m := send(nats.Header{"Ce-Id": {"order-8"}, "Nats-Msg-Id": {"x"}}); m.ID != "order-8" {
		t.Errorf("id %q, want the ce-id whatever its case", m.ID)
	}
	if m := send(nil); !strings.HasPrefix(m.ID, "IN:3:") {
		t.Errorf("id %q, want its place in the stream", m.ID)
	}
}

// slots counts.
type slots struct {
	ch   chan struct{}
	over atomic.Int32
}

func newSlots(n int) *slots {
	s := &slots{ch: make(chan struct{}, n)}
	for range n {
		s.ch <- struct{}{}
	}
	return s
}

func (s *slots) TryAcquire() bool {
	select {
	case <-s.ch:
		return true
	default:
		return false
	}
}

func (s *slots) Release() {
	select {
	case s.ch <- struct{}{}:
	default:
		s.over.Add(1)
	}
}

func (s *slots) free() int { return len(s.ch) }

// A process that others would judge dead is given nothing until it is back.
func TestConsume_TakeFalsePullsNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("a")
	var runs atomic.Int32
	var may atomic.Bool
	consume(t, b, bus.Consumption{Take: may.Load, Handle: func(context.Context, events.Received) error { runs.Add(1); return nil }})
	publish(t, b, fact(1))
	time.Sleep(500 * time.Millisecond) // several looks
	if n := runs.Load(); n != 0 {
		t.Fatalf("%d messages were taken", n)
	}
	lag, err := b.Lag(t.Context(), events.StreamRuns, events.ConsumerRunner)
	if err != nil || lag.Pending != 1 || lag.AckPending != 0 {
		t.Fatalf("lag %+v (%v), want the message to wait for others", lag, err)
	}
	may.Store(true)
	eventually(t, 5*time.Second, "it is taken", func() bool { return runs.Load() == 1 })
}

// A handler that outlasts the time to stop is cancelled before that is over, so that
// there is time to give its message back: the stop is a clean one, and another consumer
// has the message.
func TestStop_HandsOverInTime(t *testing.T) {
	t.Parallel()
	b := newServer(t).provisioned("a")
	taken, left := make(chan struct{}, 3), make(chan time.Duration, 3)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	end, _ := ctx.Deadline()
	k, err := b.Consume(t.Context(), bus.Consumption{Stream: events.StreamRuns, Durable: events.ConsumerRunner, Workers: 3, Handle: func(ctx context.Context, _ events.Received) error {
		taken <- struct{}{}
		<-ctx.Done()
		left <- time.Until(end)
		return context.Cause(ctx)
	}})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, b, fact(1), fact(2), fact(3))
	for range 3 {
		<-taken
	}
	if err := k.Stop(ctx); err != nil {
		t.Errorf("the stop: %v", err)
	}
	for range 3 {
		if d := <-left; d < 200*time.Millisecond {
			t.Errorf("a handler was cancelled with %s left", d)
		}
	}
	var others atomic.Int32
	consume(t, b, bus.Consumption{Handle: func(context.Context, events.Received) error { others.Add(1); return nil }})
	eventually(t, 30*time.Second, "another has them", func() bool { return others.Load() >= 3 })
}
