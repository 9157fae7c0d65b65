package bus_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// A repeat within the window is trimmed, also when the message is gone by then;
// a nudge with a fresh message id is not, and keeps its ce-id.
func TestPublish_MessageIDs(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("a")
	var seen log
	consume(t, b, bus.Consumption{Handle: func(_ context.Context, m events.Received) error { seen.add(m.ID + " " + m.MsgID); return nil }})
	m := fact(1)
	publish(t, b, m)
	eventually(t, 5*time.Second, "handled", func() bool { return seen.count() == 1 && empty(t, b, events.ConsumerRunner)() })
	publish(t, b, m, m)
	nudge := m
	nudge.MsgID = m.ID + ":n1"
	publish(t, b, nudge)
	eventually(t, 5*time.Second, "nudge handled", func() bool { return seen.count() >= 2 && empty(t, b, events.ConsumerRunner)() })
	if got, want := fmt.Sprint(seen.all()), "[signal:1 signal:1 signal:1 signal:1:n1]"; got != want {
		t.Errorf("seen %s, want %s", got, want)
	}
}

func TestPublish_TooLarge(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("a")
	m := fact(1)
	m.Data = []byte(`"` + strings.Repeat("x", 2<<20) + `"`)
	err := b.Publish(t.Context(), m)
	if code, ok := fault.TerminalCode(err); !ok || code != bus.CodeTooLarge {
		t.Errorf("publish of 2 MiB = %v, want a terminal fault %s", err, bus.CodeTooLarge)
	}
	publish(t, b, fact(2)) // the connection still works
}

// Facts about JetStream that the rules of acknowledgement stand on.
func TestJetStream_StaleAckRemovesTheMessage(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("a")
	_, js := s.raw()
	publish(t, b, fact(1))
	c, err := js.Consumer(t.Context(), events.StreamRuns, events.ConsumerRunner)
	if err != nil {
		t.Fatal(err)
	}
	first, err := c.Next(jetstream.FetchMaxWait(2 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.Next(jetstream.FetchMaxWait(5 * time.Second)) // after AckWait
	if err != nil {
		t.Fatal(err)
	}
	if m, _ := second.Metadata(); m.NumDelivered != 2 {
		t.Fatalf("delivery %d, want the second", m.NumDelivered)
	}
	if err := first.DoubleAck(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !empty(t, b, events.ConsumerRunner)() {
		t.Error("a stale ack no longer removes the message: the rule about ErrLost may be relaxed")
	}
}

func TestProvision_ConcurrentAndOverOldSettings(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	_, js := s.raw()
	// An older release: fewer kinds of fact, another AckWait, smaller streams.
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: events.StreamRuns, Subjects: []string{"hf.run.*.*"}, Retention: jetstream.WorkQueuePolicy, MaxBytes: 1 << 20,
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateConsumer(t.Context(), events.StreamRuns, jetstream.ConsumerConfig{
		Durable: events.ConsumerRunner, FilterSubjects: []string{"hf.run.*.start"}, AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute,
	}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 6 {
		b := s.connect(fmt.Sprint(i))
		wg.Go(func() {
			if err := b.Provision(t.Context(), []string{"default", "slow"}); err != nil {
				t.Errorf("provision: %v", err)
			}
		})
	}
	wg.Wait()
	stream, err := js.Stream(t.Context(), events.StreamRuns)
	if err != nil {
		t.Fatal(err)
	}
	if c := stream.CachedInfo().Config; c.MaxBytes <= 1<<20 || c.Discard != jetstream.DiscardNew || c.Duplicates != 30*time.Second {
		t.Errorf("stream keeps old settings: %+v", c)
	}
	cons, err := js.Consumer(t.Context(), events.StreamRuns, events.ConsumerRunner)
	if err != nil {
		t.Fatal(err)
	}
	if c := cons.CachedInfo().Config; c.AckWait != bus.AckWait || len(c.FilterSubjects) != len(events.FastRunKinds) || c.MaxDeliver != -1 || c.MaxAckPending != 4096 {
		t.Errorf("consumer keeps old settings: %+v", c)
	}
	if _, err := js.Consumer(t.Context(), events.StreamTools, events.ToolConsumer("slow")); err != nil {
		t.Errorf("pool: %v", err)
	}
}

// Every subject that services publish to belongs to exactly one durable.
func TestProvision_EverySubjectHasItsConsumer(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.provisioned("a")
	run := events.NewRunID()
	call := events.NewCallID(run, 2, 0)
	approval := events.NewApprovalID(call, "a", 2)
	var n int
	check := func(subject, stream, durable string) {
		t.Helper()
		n++
		m := fact(n)
		m.Subject = subject
		var got atomic.Pointer[string]
		k := consume(t, b, bus.Consumption{Stream: stream, Durable: durable, Handle: func(_ context.Context, m events.Received) error {
			got.Store(&m.Subject)
			return nil
		}})
		publish(t, b, m)
		eventually(t, 5*time.Second, durable+" gets "+subject, func() bool { g := got.Load(); return g != nil && *g == subject })
		stop(t, k, time.Second)
	}
	for _, what := range events.FastRunKinds {
		check(events.RunSubject(run, what), events.StreamRuns, events.ConsumerRunner)
	}
	for _, what := range []string{events.RunStep, events.RunStepLane(events.PriorityInteractive, 0), events.RunStepLane(events.PriorityBatch, 7)} {
		check(events.RunSubject(run, what), events.StreamRuns, events.StepConsumer(what))
	}
	check(events.ToolSubject("default", call), events.StreamTools, events.ToolConsumer("default"))
	check(events.ToolControlSubject(call), events.StreamTools, events.ConsumerToolCtl)
	check(events.ApprovalSubject(approval, events.ApprovalAsk), events.StreamApprovals, events.ConsumerApprovals)
	check(events.ApprovalSubject(approval, events.ApprovalWithdraw), events.StreamApprovals, events.ConsumerApprovals)
	check(events.InSubject("shop"), events.StreamIn, events.ConsumerTrigger)
}

func TestPublishLive(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.connect("a")
	eventually(t, 5*time.Second, "connected", func() bool { return b.Ready(t.Context()) == nil })
	nc, _ := s.raw()
	sub, err := nc.SubscribeSync("hf.live.*")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := b.PublishLive("hf.live.x", []byte("token")); err != nil {
		t.Fatal(err)
	}
	m, err := sub.NextMsg(5 * time.Second)
	if err != nil || string(m.Data) != "token" {
		t.Errorf("got %v, %v", m, err)
	}
}

// TestListenLive: a listener goes on after the server was away, and hears
// nothing after it stopped.
func TestListenLive(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	speaker, listener := s.connect("speaker"), s.connect("listener")
	heard := make(chan string, 100)
	stop, err := listener.ListenLive("hf.live.x", func(data []byte) { heard <- string(data) })
	if err != nil {
		t.Fatal(err)
	}
	arrives := func(text string) {
		t.Helper()
		eventually(t, 10*time.Second, text, func() bool {
			_ = speaker.PublishLive("hf.live.x", []byte(text)) // lost while the line is down
			_ = speaker.PublishLive("hf.live.y", []byte("another run"))
			select {
			case got := <-heard:
				return got == text
			case <-time.After(20 * time.Millisecond):
				return false
			}
		})
	}
	arrives("first")
	s.stop()
	s.start()
	arrives("second")
	stop()
	eventually(t, 10*time.Second, "both lines", func() bool { return speaker.Ready(t.Context()) == nil && listener.Ready(t.Context()) == nil })
	for len(heard) > 0 {
		<-heard
	}
	if err := speaker.PublishLive("hf.live.x", []byte("third")); err != nil {
		t.Fatal(err)
	}
	if speaker.Ready(t.Context()) != nil || listener.Ready(t.Context()) != nil {
		t.Fatal("not connected")
	}
	if len(heard) != 0 {
		t.Errorf("heard %q after the stop", <-heard)
	}
}
