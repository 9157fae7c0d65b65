package console

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-run/holdfast/internal/follow"
	"github.com/holdfast-run/holdfast/internal/telemetry"
)

const (
	// boardEvery is how often watchers are told at the most.
	boardEvery = time.Second
	// lookEvery is how often the database is asked for what no event tells of,
	// while somebody watches the namespace.
	lookEvery = 2 * time.Second
	// turnEvery is how often what changes with time alone counts as changed.
	turnEvery = 5 * time.Second
	// lookWithin bounds one look.
	lookWithin = 5 * time.Second
)

// ofTime are the topics that change with time alone, or without anything that is
// cheap to look for.
var ofTime = []string{TopicSystem, TopicSchedules, TopicBudgets, TopicTriggers}

// Looker tells what no event tells of.
type Looker interface {
	// Marks returns a text for each topic; another text means that it changed.
	Marks(ctx context.Context, namespace string) (map[string]string, error)
}

// board tells many watchers of this process which topics changed. It hears the
// one tail of events and asks the database once for all watchers of a
// namespace. What a watcher was not told yet is a set of its own topics, so a
// slow one costs no more than a quick one. It is safe for concurrent use.
type board struct {
	heard *follow.Follower
	look  Looker
	log   *slog.Logger

	mu     sync.Mutex
	at     follow.Position // of the newest event that was heard
	spaces map[string]*space
}

// space is what is watched in one namespace.
type space struct {
	watchers map[*Watcher]struct{}
	dirty    map[string]struct{}
	lost     bool
	marks    map[string]string
	looked   time.Time
	turned   time.Time
}

// Watcher is one reader of the board.
type Watcher struct {
	// C has something when Take does.
	C <-chan struct{}

	board     *board
	namespace string
	topics    map[string]struct{}
	c         chan struct{}
	changed   map[string]struct{}
	lost      bool
	at        follow.Position // everything up to here was told
	told      time.Time       // when that was
}

// Told is what a watcher is told at once.
type Told struct {
	At     follow.Position // up to here; empty before the event stream was reached
	Topics []string        // in order
	Lost   bool            // events may have gone by unheard: read everything again
	// Seen is when that was seen: what is read from then on shows it.
	Seen time.Time
}

func newBoard(heard *follow.Follower, look Looker, log *slog.Logger) *board {
	b := &board{heard: heard, look: look, log: log, spaces: map[string]*space{}}
	heard.Tap(b)
	return b
}

// Watch tells of changes of the topics from now on, until Close.
func (s *Service) Watch(namespace string, topics []string) *Watcher {
	return s.board.watch(namespace, topics)
}

func (b *board) watch(namespace string, topics []string) *Watcher {
	w := &Watcher{board: b, namespace: namespace, topics: map[string]struct{}{}, at: b.heard.Position(), c: make(chan struct{}, 1), changed: map[string]struct{}{}}
	w.C = w.c
	for _, t := range topics {
		w.topics[t] = struct{}{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.spaces[namespace]
	if s == nil {
		s = &space{watchers: map[*Watcher]struct{}{}, dirty: map[string]struct{}{}}
		b.spaces[namespace] = s
	}
	s.watchers[w] = struct{}{}
	return w
}

// watching counts who watches.
func (b *board) watching() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.spaces {
		n += len(s.watchers)
	}
	return n
}

// Take returns what changed since the last Take.
func (w *Watcher) Take() Told {
	b := w.board
	b.mu.Lock()
	defer b.mu.Unlock()
	c := Told{At: w.at, Lost: w.lost, Seen: w.told}
	for t := range w.changed {
		c.Topics = append(c.Topics, t)
	}
	slices.Sort(c.Topics)
	clear(w.changed)
	w.lost = false
	return c
}

// Close ends the watch.
func (w *Watcher) Close() {
	b := w.board
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.spaces[w.namespace]
	if s == nil {
		return
	}
	delete(s.watchers, w)
	if len(s.watchers) == 0 {
		delete(b.spaces, w.namespace)
	}
}

// Heard implements follow.Tap.
func (b *board) Heard(at follow.Position, e follow.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = at
	s := b.spaces[e.Message.Namespace]
	if s == nil {
		return
	}
	for _, t := range TopicsOf(e) {
		s.dirty[t] = struct{}{}
	}
}

// Lost implements follow.Tap.
func (b *board) Lost() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.spaces {
		s.lost = true
	}
}

// run tells watchers until ctx ends.
func (b *board) run(ctx context.Context) error {
	tick := time.NewTicker(boardEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			b.turn(ctx, now)
		}
	}
}

func (b *board) turn(ctx context.Context, now time.Time) {
	b.mu.Lock()
	var due []string
	for name, s := range b.spaces {
		if now.Sub(s.looked) >= lookEvery {
			s.looked = now
			due = append(due, name)
		}
	}
	b.mu.Unlock()
	for _, name := range due {
		b.lookAt(ctx, name)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.spaces {
		if now.Sub(s.turned) >= turnEvery {
			s.turned = now
			for _, t := range ofTime {
				s.dirty[t] = struct{}{}
			}
		}
		s.tell(b.at)
	}
}

// lookAt finds what no event told of. A database that cannot be asked changes nothing.
func (b *board) lookAt(ctx context.Context, namespace string) {
	if b.look == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	marks, err := b.look.Marks(ctx, namespace)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			b.log.WarnContext(ctx, "board could not look", "namespace", namespace, telemetry.KeyErr, err)
		}
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.spaces[namespace]
	if s == nil {
		return
	}
	for topic, mark := range marks {
		if before, known := s.marks[topic]; known && before != mark {
			s.dirty[topic] = struct{}{}
		}
	}
	s.marks = marks
}

// tell hands what is dirty to who watches it; the lock is held.
func (s *space) tell(at follow.Position) {
	if len(s.dirty) == 0 && !s.lost {
		return
	}
	now := time.Now()
	for w := range s.watchers {
		some := s.lost
		w.at = at
		w.lost = w.lost || s.lost
		for t := range w.topics {
			if _, ok := s.dirty[t]; ok {
				w.changed[t], some = struct{}{}, true
			}
		}
		if some {
			w.told = now
			select {
			case w.c <- struct{}{}:
			default: // it has not taken what it was told before
			}
		}
	}
	clear(s.dirty)
	s.lost = false
}
