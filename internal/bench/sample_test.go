package bench

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestHammer_StopsByItself(t *testing.T) {
	t.Parallel()
	s, err := hammer(t.Context(), 4, 50*time.Millisecond, func(context.Context) error {
		time.Sleep(time.Millisecond)
		return nil
	})
	if err != nil || len(s.took) < 4 || s.elapsed < 50*time.Millisecond || s.elapsed > 10*time.Second {
		t.Errorf("%d operations in %v: %v", len(s.took), s.elapsed, err)
	}
	broken := errors.New("broken")
	if _, err := hammer(t.Context(), 4, time.Minute, func(context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("%v, want the error of the first that failed", err)
	}
}

func TestSample_Percentile(t *testing.T) {
	t.Parallel()
	var s sample
	if got := s.percentile(50); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	for i := range 100 {
		s.took = append(s.took, time.Duration(i+1)*time.Millisecond)
	}
	s.elapsed = 2 * time.Second
	want, got := Row{PerSecond: 50, P50Ms: 50, P99Ms: 99}, Row{}
	if s.into(&got); !cmp.Equal(want, got) {
		t.Errorf("row (-want +got):\n%s", cmp.Diff(want, got))
	}
}
