package console

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// counting is a store that only counts.
type counting struct {
	Store
	mu    sync.Mutex
	asked map[string]int
}

func (c *counting) Answers(_ context.Context, namespace string, since time.Time) (Answers, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[namespace]++
	return Answers{Since: since, Approvals: c.asked[namespace]}, nil
}

// A hundred pages that ask at once, and again and again, cost one count a second.
func TestAnswers_OnceASecondForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &counting{asked: map[string]int{}}
		s := &Service{Store: store}
		var wg sync.WaitGroup
		begun := time.Now()
		for range 100 {
			wg.Go(func() {
				for time.Since(begun) < 10*time.Second {
					if _, err := s.Answers(t.Context(), "default", Today(begun), time.Time{}); err != nil {
						t.Error(err)
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		if n := store.asked["default"]; n < 10 || n > 11 {
			t.Errorf("counted %d times in ten seconds", n)
		}
		if a, err := s.Answers(t.Context(), "other", Today(begun), time.Time{}); err != nil || a.Approvals != 1 {
			t.Errorf("another namespace has %+v, %v", a, err)
		}
		// A new day is not answered with the old one's.
		if a, err := s.Answers(t.Context(), "other", Today(begun).Add(24*time.Hour), time.Time{}); err != nil || a.Approvals != 2 {
			t.Errorf("the next day has %+v, %v", a, err)
		}
		time.Sleep(2 * overviewKept)
		_, _ = s.Answers(t.Context(), "third", Today(begun), time.Time{}) // it cannot fail here
		if n := len(s.overviews.known); n != 1 {
			t.Errorf("%d overviews are kept that nobody asks for", n)
		}
	})
}

// Who was told of a change has it in the numbers, however young those are that others
// were shown before it; and all who were told at once cost one count.
func TestAnswers_HaveWhatWasSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &counting{asked: map[string]int{}}
		s := &Service{Store: store}
		day := Today(time.Now())
		if a, err := s.Answers(t.Context(), "default", day, time.Time{}); err != nil || a.Approvals != 1 {
			t.Fatalf("%+v, %v", a, err)
		}
		time.Sleep(time.Millisecond)
		changed := time.Now()
		time.Sleep(time.Millisecond)
		for range 100 {
			if a, err := s.Answers(t.Context(), "default", day, changed); err != nil || a.Approvals != 2 {
				t.Fatalf("as of the change: %+v, %v", a, err)
			}
		}
		time.Sleep(time.Millisecond)
		if a, err := s.Answers(t.Context(), "default", day, time.Now()); err != nil || a.Approvals != 3 {
			t.Errorf("as of now: %+v, %v", a, err)
		}
		if a, err := s.Answers(t.Context(), "default", day, time.Time{}); err != nil || a.Approvals != 3 {
			t.Errorf("as of no moment: %+v, %v", a, err)
		}
	})
}
