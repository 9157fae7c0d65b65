package console

import (
	"context"
	"sync"
	"time"
)

const (
	// overviewFor is how long an answer counts, for whoever asks as of no moment.
	overviewFor = time.Second
	// overviewKept is how long one that nobody asks for stays in memory.
	overviewKept = time.Minute
)

// overviews keeps the newest answers of each namespace that is looked at.
type overviews struct {
	mu    sync.Mutex
	known map[string]*overview
}

type overview struct {
	mu      sync.Mutex // held while it is read
	answers Answers
	begun   time.Time // when they were asked for: what was committed before is in them
	at      time.Time
}

// of returns the overview of a namespace and forgets the others that are old.
func (o *overviews) of(namespace string, now time.Time) *overview {
	o.mu.Lock()
	defer o.mu.Unlock()
	if v := o.known[namespace]; v != nil {
		return v
	}
	for name, v := range o.known {
		if v.mu.TryLock() {
			if now.Sub(v.at) > overviewKept {
				delete(o.known, name)
			}
			v.mu.Unlock()
		}
	}
	if o.known == nil {
		o.known = map[string]*overview{}
	}
	v := &overview{}
	o.known[namespace] = v
	return v
}

// Answers counts what there is in a namespace. What was committed before asOf is in the
// numbers: who was told of a change and asks as of then sees it, and all who were told at
// once share one count. With a zero asOf they may be a second old.
func (s *Service) Answers(ctx context.Context, namespace string, since, asOf time.Time) (Answers, error) {
	now := time.Now()
	v := s.overviews.of(namespace, now)
	v.mu.Lock()
	defer v.mu.Unlock()
	fresh := !v.begun.Before(asOf)
	if asOf.IsZero() {
		fresh = time.Since(v.at) < overviewFor
	}
	if fresh && v.answers.Since.Equal(since) {
		return v.answers, nil
	}
	begun := time.Now()
	answers, err := s.Store.Answers(ctx, namespace, since)
	if err != nil {
		return Answers{}, err
	}
	v.answers, v.begun, v.at = answers, begun, time.Now()
	return answers, nil
}

// Today is when the day began that an overview counts from, in UTC.
func Today(now time.Time) time.Time { return now.UTC().Truncate(24 * time.Hour) }

// Stuck is how many runs do not go on by themselves.
func (a Answers) Stuck() int { return a.Open["needs_attention"] + a.Open["paused"] }
