package console

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/follow"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// What happens in another namespace is told to nobody of this one; what happens
// here is told once, however often it happens.
func TestBoard_TellsItsNamespaceOnce(t *testing.T) {
	t.Parallel()
	b := newBoard(follow.New(nil, nil, slog.New(slog.DiscardHandler)), nil, slog.New(slog.DiscardHandler))
	w := b.watch("default", []string{TopicRuns, TopicEffects})
	heard := func(namespace string) {
		run := events.RunEvent{RunID: events.NewRunID(), Namespace: namespace, Kind: events.FactPlanChanged}
		b.Heard(follow.Position{Epoch: "e", Seq: 1}, follow.Event{Message: events.Message{Namespace: namespace}, Run: &run})
	}
	now := time.Now()
	heard("other")
	b.turn(t.Context(), now)
	if len(w.C) != 0 {
		t.Errorf("told of another namespace: %v", w.Take().Topics)
	}
	for range 5 {
		heard("default")
	}
	b.turn(t.Context(), now)
	if len(w.C) != 1 {
		t.Fatal("not told")
	}
	<-w.C
	if got := w.Take(); !slices.Equal(got.Topics, []string{TopicRuns}) || got.At.Seq != 1 || got.Lost {
		t.Errorf("told %+v", got)
	}
	b.Lost()
	b.turn(t.Context(), now)
	if got := w.Take(); !got.Lost {
		t.Error("events went by unheard and nobody is told")
	}
	w.Close()
	if len(b.spaces) != 0 {
		t.Error("a namespace that nobody watches is kept")
	}
}
