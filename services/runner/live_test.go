package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// screen keeps what is shown of a run.
type screen struct {
	mu  sync.Mutex
	all []events.Delta
}

func (r *rig) watchLive(id events.RunID) *screen {
	r.t.Helper()
	s := &screen{}
	r.eventually("a line to NATS", func() bool { return r.bus.Ready(r.t.Context()) == nil }, nil)
	stop, err := r.bus.ListenLive(events.LiveSubject(id), func(data []byte) {
		var d events.Delta
		if err := json.Unmarshal(data, &d); err != nil {
			r.t.Error(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = append(s.all, d)
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(stop)
	if err := r.bus.Ready(r.t.Context()); err != nil { // the server has the subscription
		r.t.Fatal(err)
	}
	return s
}

func (s *screen) shows(kind, text string) func() bool {
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.ContainsFunc(s.all, func(d events.Delta) bool { return d.Kind == kind && strings.Contains(d.Text, text) })
	}
}

func shown(text string) runner.Piece { return runner.Piece{Kind: events.DeltaText, Text: text} }

// Pieces are there before the answer's row, and what broke off is taken back
// before the call is made again.
func TestLive_PiecesComeBeforeTheRow(t *testing.T) {
	r := newRig(t)
	id := events.NewRunID()
	s := r.watchLive(id)
	seen := make(chan struct{})
	r.worker(&script{answer: func(ctx context.Context, q runner.Request, n int) (runner.Answer, error) {
		if n == 1 {
			q.Show(shown("half a wo"))
			r.eventually("the first piece", s.shows(events.DeltaText, "half a wo"), nil)
			return runner.Answer{}, &runner.ModelError{Code: "overloaded_error", Retry: true, Err: errors.New("busy")}
		}
		q.Show(shown("whole"))
		<-seen
		return said("whole"), nil
	}})
	r.startAs(id, events.KindAgent, "clerk", `{}`)
	r.eventually("the reset", s.shows(events.DeltaReset, ""), nil)
	r.eventually("the second attempt", s.shows(events.DeltaText, "whole"), nil)
	if got := r.kinds(id); slices.Contains(got, events.FactModelAnswered) {
		t.Errorf("the answer is recorded before it is given: %v", got)
	}
	close(seen)
	r.reaches(id, events.StatusCompleted)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, d := range s.all {
		if d.RunID != id || d.Namespace != "default" || i > 0 && (d.Turn < s.all[i-1].Turn || d.Epoch < s.all[i-1].Epoch) {
			t.Errorf("piece %d is %+v", i, d)
		}
	}
	if text := r.journalText(id); strings.Contains(text, "half a wo") {
		t.Error("what was taken back is in the journal")
	}
}

// A worker that is gone in the middle of an answer leaves a piece; the next one
// shows its own under a higher epoch, and one answer is recorded.
func TestLive_TakeoverShowsANewEpoch(t *testing.T) {
	r := newRig(t)
	id := events.NewRunID()
	s := r.watchLive(id)
	a := r.worker(&script{answer: func(ctx context.Context, q runner.Request, _ int) (runner.Answer, error) {
		q.Show(shown("of the dead"))
		<-ctx.Done()
		return runner.Answer{}, ctx.Err()
	}})
	r.startAs(id, events.KindAgent, "clerk", `{}`)
	r.eventually("the first worker's piece", s.shows(events.DeltaText, "of the dead"), nil)
	r.worker(&script{answer: func(_ context.Context, q runner.Request, _ int) (runner.Answer, error) {
		q.Show(shown("of the living"))
		return said("of the living"), nil
	}})
	time.Sleep(2100 * time.Millisecond) // it must have been fresh for two seconds before it may judge
	a.freeze()
	r.reaches(id, events.StatusCompleted)
	r.eventually("the second worker's piece", s.shows(events.DeltaText, "of the living"), nil)
	s.mu.Lock()
	first, last := s.all[0], s.all[len(s.all)-1]
	s.mu.Unlock()
	if last.Epoch <= first.Epoch || last.N != 0 {
		t.Errorf("pieces %+v and %+v, want a higher epoch that counts anew", first, last)
	}
	answers := 0
	for _, kind := range r.kinds(id) {
		if kind == events.FactModelAnswered {
			answers++
		}
	}
	if answers != 1 {
		t.Errorf("%d answers are recorded, want 1", answers)
	}
}

// Without NATS a model call goes on as fast as ever; only its pieces are lost.
func TestLive_NATSAwayCostsPiecesOnly(t *testing.T) {
	r := newRig(t)
	id := events.NewRunID()
	s := r.watchLive(id)
	var took time.Duration
	r.worker(&script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		q.Show(shown("before"))
		r.eventually("the first piece", s.shows(events.DeltaText, "before"), nil)
		r.nats.Stop()
		began := time.Now()
		for range 20_000 {
			q.Show(shown("nobody hears this"))
		}
		took = time.Since(began)
		r.nats.Start()
		return said("done"), nil
	}})
	r.startAs(id, events.KindAgent, "clerk", `{}`)
	r.reaches(id, events.StatusCompleted)
	if took > 5*time.Second {
		t.Errorf("showing took %s without NATS", took)
	}
	if n := len(r.kinds(id)); n != 3 {
		t.Errorf("journal %v, want start, answer and end", r.kinds(id))
	}
}
