package follow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// sink collects what a stream writes: "id event".
type sink struct {
	mu   sync.Mutex
	got  []string
	data []string
}

func (s *sink) Send(id, event string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got, s.data = append(s.got, id+" "+event), append(s.data, string(data))
	return nil
}

func (s *sink) Beat() error { return nil }

func TestStream_EndsWithTheFinalStatus(t *testing.T) {
	t.Parallel()
	m := &memory{}
	f := newTestFollower(m)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s := &sink{}
	done := make(chan error, 1)
	go func() { done <- f.Stream(ctx, "default", theRun, 0, true, s) }()
	for i, status := range []string{events.StatusQueued, events.StatusRunning, events.StatusCompleted} {
		f.hub.publish(received(t, uint64(i+1), m.append(status)))
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1 ", "2 ", "3 ", " end"}, s.got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := fmt.Sprintf(`{"run_id":"%s","status":"completed"}`, theRun); s.data[3] != want {
		t.Errorf("the end says %s, want %s", s.data[3], want)
	}
	again := &sink{} // of a run that had ended before
	if err := f.Stream(ctx, "default", theRun, 3, false, again); err != nil || len(again.got) != 1 || again.data[0] != s.data[3] {
		t.Errorf("after the end came %v %v, %v", again.got, again.data, err)
	}
}

// An event whose body was left out on the bus is read from the history.
func TestFollow_ElidedBodyComesFromTheHistory(t *testing.T) {
	t.Parallel()
	m := &memory{}
	f := newTestFollower(m)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var got []events.RunEvent
	done := make(chan error, 1)
	subscribed := make(chan struct{})
	m.append(events.StatusRunning)
	go func() {
		done <- f.Follow(ctx, "default", theRun, 0, func(e events.RunEvent) error {
			if e.Seq == 1 {
				close(subscribed)
			}
			got = append(got, e)
			return nil
		}, func() error { return nil })
	}()
	<-subscribed
	told := m.append(events.StatusCompleted)
	m.mu.Lock()
	m.facts[1].Data = []byte(`{"output":"whole"}`)
	m.mu.Unlock()
	told.Data, told.Elided = []byte("null"), 18
	f.hub.publish(received(t, 1, told))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || string(got[1].Data) != `{"output":"whole"}` || got[1].Elided != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestAwait_LooksWhenTheTailTellsOfAnEnd(t *testing.T) {
	t.Parallel()
	m := &memory{}
	f := newTestFollower(m)
	looked := make(chan struct{}, 10)
	done := make(chan error, 1)
	ended := func(ctx context.Context) (bool, error) {
		looked <- struct{}{}
		_, status, err := m.Head(ctx, "default", theRun)
		return events.Ended(status), err
	}
	go func() { done <- f.Await(t.Context(), theRun, ended) }()
	<-looked
	begun := time.Now()
	f.hub.publish(received(t, 1, m.append(events.StatusRunning)))
	f.hub.publish(received(t, 2, m.append(events.StatusFailed)))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > pollEvery/2 {
		t.Errorf("told of the end after %s, which is the next look and not the tail", took)
	}
	if len(f.hub.runs) != 0 {
		t.Errorf("%d subscriptions are left", len(f.hub.runs))
	}
}

// Without a word from the tail the run is looked at all the same.
func TestAwait_TailMissesTheEnd(t *testing.T) {
	t.Parallel()
	f := New(nil, &memory{}, nil)
	looks := 0
	err := f.Await(t.Context(), theRun, func(context.Context) (bool, error) { looks++; return looks == 2, nil })
	if err != nil || looks != 2 {
		t.Errorf("%d looks, %v", looks, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := f.Await(ctx, theRun, func(context.Context) (bool, error) { return false, nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
