package inbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/trigger/inbox"
)

// intake answers by the message's id and notes what it got.
type intake struct {
	mu       sync.Mutex
	taken    map[string]int
	rejected map[string]string
}

func (i *intake) Message(_ context.Context, m events.Received) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.taken[m.ID]++
	switch {
	case m.ID == "never":
		return fault.Terminal("invalid_input", errors.New("no schema fits"))
	case m.ID == "later" && i.taken[m.ID] == 1:
		return errors.New("no database")
	}
	return nil
}

func (i *intake) RejectMessage(_ context.Context, m events.Received, code string, _ error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rejected[m.ID] = code
	return nil
}

// A message is acknowledged once it was taken, comes back after an error, and is
// kept with its reason when it can never be taken.
func TestInbox(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	in := &intake{taken: map[string]int{}, rejected: map[string]string{}}
	box := inbox.New(b)
	if err := box.Start(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if err := box.Start(t.Context(), in); err == nil {
		t.Error("it starts twice")
	}
	for _, id := range []string{"good", "later", "never"} {
		m := events.Message{Subject: events.InSubject("orders"), ID: id, MsgID: id, Source: "/test", Type: events.TypeStartRequest, Data: json.RawMessage(`{}`)}
		if err := b.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(60 * time.Second)
	for {
		lag, err := b.Lag(t.Context(), events.StreamIn, events.ConsumerTrigger)
		if err != nil {
			t.Fatal(err)
		}
		in.mu.Lock()
		all := len(in.taken) == 3 && in.taken["later"] == 2 && len(in.rejected) == 1
		in.mu.Unlock()
		if all && lag.Pending == 0 && lag.AckPending == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("lag %+v, taken %v, rejected %v", lag, in.taken, in.rejected)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := box.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(map[string]int{"good": 1, "later": 2, "never": 1}, in.taken); diff != "" {
		t.Errorf("taken (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"never": "invalid_input"}, in.rejected); diff != "" {
		t.Errorf("rejected (-want +got):\n%s", diff)
	}
}

func TestInbox_StopBeforeStart(t *testing.T) {
	t.Parallel()
	if err := inbox.New(bustest.New(t)).Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
