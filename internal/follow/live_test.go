package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// wire is core NATS in memory: it hands a message to who listens now.
type wire struct {
	stream
	mu        sync.Mutex
	listeners map[int]func([]byte)
	subjects  []string
	next      int
}

func (w *wire) ListenLive(subject string, handle func([]byte)) (func(), error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listeners == nil {
		w.listeners = map[int]func([]byte){}
	}
	id := w.next
	w.next++
	w.listeners[id] = handle
	w.subjects = append(w.subjects, subject)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.listeners, id)
	}, nil
}

func (w *wire) say(data []byte) (heard int) {
	w.mu.Lock()
	var all []func([]byte)
	for _, l := range w.listeners {
		all = append(all, l)
	}
	w.mu.Unlock()
	for _, l := range all {
		l(data)
	}
	return len(all)
}

func delta(epoch, turn, n int64, kind, text string) events.Delta {
	return events.Delta{RunID: theRun, Namespace: "default", Epoch: epoch, Turn: turn, N: n, Kind: kind, Text: text}
}

func encoded(t *testing.T, d events.Delta) []byte {
	t.Helper()
	data, err := events.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// pipe is a sink that hands every line to a test, which may be slow.
type pipe struct{ lines chan string }

func (p *pipe) Send(id, event string, data []byte) error {
	text := string(data)
	if event == EventDelta {
		var d events.Delta
		if err := events.Decode(events.Message{Data: data}, &d); err != nil {
			return err
		}
		text = fmt.Sprintf("%d.%d %s %s", d.Epoch, d.Turn, d.Kind, d.Text)
	} else if event == "" {
		text = "row"
	}
	p.lines <- strings.TrimSpace(id + " " + event + " " + text)
	return nil
}
func (p *pipe) Beat() error { return nil }

func (p *pipe) next(t *testing.T) string {
	t.Helper()
	select {
	case l := <-p.lines:
		return l
	case <-time.After(20 * time.Second):
		t.Fatal("nothing came")
		return ""
	}
}

func watching(t *testing.T, f *Follower, live bool, size int) (*pipe, chan error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	p, done := &pipe{make(chan string, size)}, make(chan error, 1)
	go func() { done <- f.Stream(ctx, "default", theRun, 0, live, p) }()
	return p, done
}

func liveFollower(m *memory) (*wire, *Follower) {
	w := &wire{}
	f := New(w, m, slog.New(slog.DiscardHandler))
	f.hub.begin("e1", 0)
	return w, f
}

// TestLive_PiecesBetweenRows tells pieces of three attempts, of which one is
// taken over, one given up and one answered, and what comes too late.
func TestLive_PiecesBetweenRows(t *testing.T) {
	t.Parallel()
	m := &memory{}
	w, f := liveFollower(m)
	m.append(events.StatusRunning)
	p, done := watching(t, f, true, 100)
	if got := p.next(t); got != "1  row" {
		t.Fatalf("first %q", got)
	}
	foreign := delta(1, 1, 0, events.DeltaText, "not yours")
	foreign.Namespace = "other"
	other := delta(1, 1, 0, events.DeltaText, "another run")
	other.RunID = events.NewRunID()
	long := delta(1, 1, 0, events.DeltaText, strings.Repeat("x", events.MaxDeltaText+1))
	for _, d := range []events.Delta{
		foreign, other, long, delta(1, 1, 0, "shout", "unknown"), delta(0, 1, 0, events.DeltaText, "no epoch"),
		delta(1, 1, 0, events.DeltaReset, ""), // nothing is shown
		delta(1, 1, 0, events.DeltaText, "par"), delta(1, 1, 1, events.DeltaText, "tial"),
		delta(2, 1, 0, events.DeltaThinking, "again"), // another worker took over: its own word for it
		delta(1, 1, 2, events.DeltaText, "the old worker still talks"),
		delta(2, 1, 1, events.DeltaReset, ""), // given up
		delta(3, 1, 0, events.DeltaText, "whole"),
	} {
		w.say(encoded(t, d))
	}
	w.say([]byte(`{"run_id":`))
	for _, want := range []string{
		"delta 1.1 text par", "delta 1.1 text tial", "delta 1.1 reset", "delta 2.1 thinking again", "delta 2.1 reset", "delta 3.1 text whole",
	} {
		if got := p.next(t); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	e := m.append(events.StatusRunning)
	m.mu.Lock()
	m.facts[1].Kind = events.FactModelAnswered
	e.Kind = events.FactModelAnswered
	m.mu.Unlock()
	f.hub.publish(received(t, 1, e))
	if got := p.next(t); got != "2  row" {
		t.Errorf("got %q, want the answer's row", got)
	}
	w.say(encoded(t, delta(3, 1, 1, events.DeltaText, "late")))
	w.say(encoded(t, delta(3, 2, 0, events.DeltaText, "next turn")))
	if got := p.next(t); got != "delta 3.2 text next turn" {
		t.Errorf("got %q: the answer replaces its pieces", got)
	}
	f.hub.publish(received(t, 2, m.append(events.StatusCompleted)))
	if got := p.next(t); got != "3  row" {
		t.Errorf("got %q", got)
	}
	p.next(t) // end
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(f.live.runs) != 0 || w.say(nil) != 0 {
		t.Error("a subscription is left")
	}
}

// TestLive_OneSubscriptionForARun: many readers of a run share one, and who
// does not want pieces has none.
func TestLive_OneSubscriptionForARun(t *testing.T) {
	t.Parallel()
	m := &memory{}
	w, f := liveFollower(m)
	m.append(events.StatusRunning)
	quiet, quietDone := watching(t, f, false, 10)
	quiet.next(t)
	if n := w.say(nil); n != 0 {
		t.Errorf("%d subscriptions for a reader that wants none", n)
	}
	var pipes []*pipe
	var ends []chan error
	for range 5 {
		p, done := watching(t, f, true, 10)
		p.next(t)
		pipes, ends = append(pipes, p), append(ends, done)
	}
	if n := w.say(encoded(t, delta(1, 1, 0, events.DeltaText, "hi"))); n != 1 {
		t.Errorf("%d subscriptions for one run", n)
	}
	for _, p := range pipes {
		if got := p.next(t); got != "delta 1.1 text hi" {
			t.Errorf("got %q", got)
		}
	}
	if diff := cmp.Diff([]string{"hf.live." + string(theRun)}, w.subjects); diff != "" {
		t.Errorf("subjects (-want +got):\n%s", diff)
	}
	f.hub.publish(received(t, 1, m.append(events.StatusFailed)))
	for _, done := range append(ends, quietDone) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := w.say(nil); n != 0 {
		t.Errorf("%d subscriptions are left", n)
	}
}

// TestLive_SlowReaderLosesPiecesNeverEvents: a reader that takes nothing for a
// while finds every row, and the speaker never waited.
func TestLive_SlowReaderLosesPiecesNeverEvents(t *testing.T) {
	t.Parallel()
	m := &memory{}
	w, f := liveFollower(m)
	m.append(events.StatusRunning)
	p, done := watching(t, f, true, 0) // takes nothing by itself
	p.next(t)
	const pieces, rows = 10_000, 400
	begun := time.Now()
	for n := range int64(pieces) {
		w.say(encoded(t, delta(1, 1, n, events.DeltaText, "x")))
	}
	for i := range rows {
		status := events.StatusRunning
		if i == rows-1 {
			status = events.StatusCompleted
		}
		f.hub.publish(received(t, uint64(i+1), m.append(status)))
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("speaking took %s: it waited for a reader", took)
	}
	gotRows, gotPieces := 1, 0
	for {
		line := p.next(t)
		if strings.Contains(line, "delta") {
			gotPieces++
			continue
		}
		if strings.HasPrefix(line, "end") {
			break
		}
		if gotRows++; line != fmt.Sprintf("%d  row", gotRows) {
			t.Fatalf("got %q, want row %d", line, gotRows)
		}
	}
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if gotRows != rows+1 || gotPieces > 2*liveBehind {
		t.Errorf("%d rows and %d pieces, want %d rows and at most some pieces", gotRows, gotPieces, rows+1)
	}
}
