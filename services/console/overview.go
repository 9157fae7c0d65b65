package console

import (
	"context"
	"sync"
	"time"
)

const (
	// overviewFor is how long an answer counts, for whoever asks.
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

// Answers counts what there is in a namespace, at most once a second in this
// process: who asks meanwhile gets what was counted.
func (s *Service) Answers(ctx context.Context, namespace string, since time.Time) (Answers, error) {
	now := time.Now()
	v := s.overviews.of(namespace, now)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.answers.Since.Equal(since) && time.Since(v.at) < overviewFor {
		return v.answers, nil
	}
	answers, err := s.Store.Answers(ctx, namespace, since)
	if err != nil {
		return Answers{}, err
	}
	v.answers, v.at = answers, time.Now()
	return answers, nil
}

// Today is when the day began that an overview counts from, in UTC.
func Today(now time.Time) time.Time { return now.UTC().Truncate(24 * time.Hour) }

// Stuck is how many runs do not go on by themselves.
func (a Answers) Stuck() int { return a.Open["needs_attention"] + a.Open["paused"] }
