package runner

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Live sends data to whoever listens now and stores nothing.
type Live interface {
	PublishLive(subject string, data []byte) error
}

// Piece is a part of an answer as the model's adapter reads it.
type Piece struct {
	Index int    // of the block
	Kind  string // events.DeltaText, DeltaThinking or DeltaToolCall
	Tool  string
	Text  string
}

const (
	liveEvery = 50 * time.Millisecond
	liveBytes = 1 << 10
	// liveQueue is how many pieces wait for the bus before new ones are dropped.
	liveQueue = 512
)

// liveFeed sends pieces of answers to the bus from a goroutine of its own: a
// model call never waits for a viewer or for NATS. What finds no room is lost.
type liveFeed struct {
	to    Live
	queue chan events.Delta
}

func newLiveFeed(to Live) *liveFeed {
	return &liveFeed{to: to, queue: make(chan events.Delta, liveQueue)}
}

func (f *liveFeed) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-f.queue:
			if data, err := events.Marshal(d); err == nil {
				_ = f.to.PublishLive(events.LiveSubject(d.RunID), data) // lost, as any piece may be
			}
		}
	}
}

// attempt begins to show one model call; nil when there is no bus to show it on.
func (f *liveFeed) attempt(r Request, namespace string) *attempt {
	if f.to == nil {
		return nil
	}
	return &attempt{queue: f.queue, next: events.Delta{RunID: r.RunID, Namespace: namespace, Epoch: r.Epoch, Turn: r.Seq}}
}

// attempt gathers the pieces of one model call: it sends what it has after 50
// ms or 1 KiB. It is safe for concurrent use.
type attempt struct {
	queue chan<- events.Delta

	mu    sync.Mutex
	next  events.Delta // but for its text
	text  strings.Builder
	held  bool // next has something to say
	timer *time.Timer
	ended bool
}

func (a *attempt) show(p Piece) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return
	}
	if a.held && (p.Index != a.next.Index || p.Kind != a.next.Kind) {
		a.flush()
	}
	a.next.Index, a.next.Kind, a.next.Tool = p.Index, p.Kind, bounded(p.Tool, 200)
	for text := p.Text; ; {
		part := bounded(text, events.MaxDeltaText-a.text.Len())
		a.text.WriteString(part)
		text = text[len(part):]
		a.held = a.held || part != "" || p.Kind == events.DeltaToolCall
		if text == "" {
			break
		}
		a.flush()
	}
	switch {
	case a.text.Len() >= liveBytes:
		a.flush()
	case a.held && a.timer == nil:
		a.timer = time.AfterFunc(liveEvery, func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.flush()
		})
	}
}

// flush sends what was gathered; the lock is held.
func (a *attempt) flush() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	if !a.held {
		return
	}
	a.next.Text = a.text.String()
	a.text.Reset()
	a.held = false
	a.send(a.next)
}

func (a *attempt) send(d events.Delta) {
	select {
	case a.queue <- d:
	default:
	}
	a.next.N++
}

// end sends the rest of a whole answer. What was shown of one that is given up
// is taken back.
func (a *attempt) end(whole bool) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if whole {
		a.flush()
	}
	a.ended, a.held = true, false
	if a.timer != nil {
		a.timer.Stop()
	}
	if !whole && a.next.N > 0 {
		a.next.Index, a.next.Kind, a.next.Tool, a.next.Text = 0, events.DeltaReset, "", ""
		a.send(a.next)
	}
}

// bounded is the beginning of s of at most n bytes, not fewer than four, that
// cuts no character.
func bounded(s string, n int) string {
	if n = max(n, utf8.UTFMax); len(s) <= n {
		return s
	}
	for cut := n; cut > n-utf8.UTFMax; cut-- {
		if utf8.RuneStart(s[cut]) {
			return s[:cut]
		}
	}
	return s[:n]
}
