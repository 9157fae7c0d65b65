package bustest_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/pkg/events"
)

func publish(t *testing.T, b *bus.Bus, id string) {
	t.Helper()
	run := events.NewRunID()
	m := events.Message{
		ID: id, MsgID: id, Type: events.TypeStepRun, Source: "bustest",
		Subject: events.RunSubject(run, events.RunStep), Data: json.RawMessage(`{"run_id":"` + run + `"}`),
	}
	if err := b.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func pending(t *testing.T, b *bus.Bus) uint64 {
	t.Helper()
	lag, err := b.Lag(t.Context(), events.StreamRuns, events.ConsumerRunnerStep)
	if err != nil {
		t.Fatal(err)
	}
	return lag.Pending
}

// awaitOnePending waits until the server counts one message for its consumer, which it
// does a moment after it has stored it.
func awaitOnePending(t *testing.T, b *bus.Bus) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); pending(t, b) != 1; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d pending, want 1", pending(t, b))
		}
	}
}

func TestNew_IsProvisionedAndOwn(t *testing.T) {
	t.Parallel()
	a, b := bustest.New(t), bustest.New(t)
	publish(t, a, "one")
	awaitOnePending(t, a)
	if got := pending(t, b); got != 0 {
		t.Errorf("the other test sees %d messages", got)
	}
	if _, err := a.Lag(t.Context(), events.StreamTools, events.ToolConsumer(bustest.Pool)); err != nil {
		t.Errorf("the default pool: %v", err)
	}
}

func TestServer_RestartKeepsAndWipeForgets(t *testing.T) {
	t.Parallel()
	s := bustest.NewServer(t)
	b := s.Connect(t)
	publish(t, b, "one")
	url := s.URL()
	s.Stop()
	if err := b.Ready(t.Context()); err == nil {
		t.Error("ready without a server")
	}
	s.Start()
	if s.URL() != url {
		t.Fatalf("another address after the restart: %s", s.URL().Reveal())
	}
	awaitReady(t, b)
	awaitOnePending(t, b)
	s.Wipe()
	awaitReady(t, b)
	other := s.Connect(t)
	if got := pending(t, other); got != 0 {
		t.Errorf("%d pending after a wipe, want 0", got)
	}
}

func awaitReady(t *testing.T, b *bus.Bus) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		err := b.Ready(ctx)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(errors.Join(err, ctx.Err()))
		}
		time.Sleep(10 * time.Millisecond)
	}
}
