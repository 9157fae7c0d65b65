package runner

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/events"
)

type nowhere struct{}

func (nowhere) PublishLive(string, []byte) error { return nil }

func begin(queue int) (*attempt, chan events.Delta) {
	f := &liveFeed{to: nowhere{}, queue: make(chan events.Delta, queue)}
	return f.attempt(Request{RunID: "r", Seq: 3, Epoch: 7}, "default"), f.queue
}

func text(index int, s string) Piece { return Piece{Index: index, Kind: events.DeltaText, Text: s} }

func TestAttempt_GathersPieces(t *testing.T) {
	t.Parallel()
	a, queue := begin(100)
	for _, s := range strings.Split("one word after the other", " ") {
		a.show(text(0, s+" "))
	}
	a.show(Piece{Index: 1, Kind: events.DeltaToolCall, Tool: "look"})
	a.show(Piece{Index: 1, Kind: events.DeltaToolCall, Tool: "look", Text: `{"a":1}`})
	want := events.Delta{RunID: "r", Namespace: "default", Epoch: 7, Turn: 3, Kind: events.DeltaText, Text: "one word after the other "}
	if diff := cmp.Diff(want, <-queue); diff != "" { // another block ends it
		t.Errorf("(-want +got):\n%s", diff)
	}
	select { // and time alone does
	case got := <-queue:
		want.N, want.Index, want.Kind, want.Tool, want.Text = 1, 1, events.DeltaToolCall, "look", `{"a":1}`
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	case <-time.After(10 * time.Second):
		t.Error("what was gathered is not sent by itself")
	}
	a.show(text(2, "the end"))
	a.end(true)
	if got := <-queue; got.Text != "the end" || got.N != 2 {
		t.Errorf("the rest of a whole answer is %+v", got)
	}
	a.show(text(2, "late"))
	if len(queue) != 0 {
		t.Errorf("after the end came %+v", <-queue)
	}
}

func TestAttempt_BoundsTextAndCutsNoCharacter(t *testing.T) {
	t.Parallel()
	a, queue := begin(1000)
	long := strings.Repeat("ä🚀", 10_000)
	a.show(text(0, "x"))
	a.show(text(0, long))
	a.end(true)
	close(queue)
	var got strings.Builder
	n := int64(0)
	for d := range queue {
		if len(d.Text) > events.MaxDeltaText || !utf8.ValidString(d.Text) || d.N != n {
			t.Fatalf("piece %d of %d bytes, number %d, valid %v", n, len(d.Text), d.N, utf8.ValidString(d.Text))
		}
		n++
		got.WriteString(d.Text)
	}
	if got.String() != "x"+long {
		t.Errorf("%d bytes came, want %d", got.Len(), 1+len(long))
	}
}

func TestAttempt_GivenUpIsTakenBack(t *testing.T) {
	t.Parallel()
	a, queue := begin(10)
	a.show(text(0, strings.Repeat("x", liveBytes)))
	a.show(text(0, "never shown"))
	a.end(false)
	if first, reset := <-queue, <-queue; first.Kind != events.DeltaText || reset.Kind != events.DeltaReset || reset.N != 1 || reset.Text != "" {
		t.Errorf("got %+v and %+v, want a piece and a reset", first, reset)
	}
	silent, queue := begin(10)
	silent.end(false)
	if len(queue) != 0 {
		t.Error("nothing was shown, and it is taken back")
	}
	var none *attempt // without a bus
	none.end(true)
}

func TestAttempt_NeverWaits(t *testing.T) {
	t.Parallel()
	a, queue := begin(1) // nobody takes anything out
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 10_000 {
			a.show(text(0, strings.Repeat("x", liveBytes)))
		}
		a.end(false)
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("a model call waits for who watches")
	}
	if d := <-queue; d.N != 0 || a.next.N != 10_001 {
		t.Errorf("kept piece %d of %d: what is lost must leave a gap in n", d.N, a.next.N)
	}
}
