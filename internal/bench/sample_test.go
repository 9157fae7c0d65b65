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
	s.cpu = spent{door: time.Millisecond, postgres: 2 * time.Millisecond, bench: 3 * time.Millisecond}
	want := Row{Clients: 3, PerSecond: 50, P50Ms: 50, P99Ms: 99, N: 100, CPU: CPU{Door: 10, Postgres: 20, Bench: 30}}
	if diff := cmp.Diff(want, s.row(3)); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

// Every ratio is to a limit of the same report, and the goal asks for both.
func TestReport_Judge(t *testing.T) {
	t.Parallel()
	report := func(perSecond, p99 float64) *Report {
		return &Report{
			Limits: Limits{SingleFew: Row{PerSecond: 100}, SingleMany: Row{PerSecond: 500}, Group: Row{PerSecond: 2000}, Rows: Row{PerSecond: 1000}, HTTP: Row{PerSecond: 2000}},
			Intake: []IntakeRow{{Row: Row{Clients: 1, PerSecond: 50}}, {Row: Row{Clients: 64, PerSecond: perSecond, P99Ms: p99}}},
		}
	}
	r := report(600, 20)
	r.judge()
	if r.Intake[1].OfGroupCPU != 0 {
		t.Errorf("a ratio of %v to processor time that nothing told", r.Intake[1].OfGroupCPU)
	}
	r.Limits.Group.CPU, r.Intake[1].CPU = CPU{Postgres: 12, Bench: 8}, CPU{Door: 40, Postgres: 30, Bench: 10}
	if r.judge(); r.Intake[1].OfGroupCPU != 0.25 {
		t.Errorf("a row of the limit costs %v of a start, want 0.25", r.Intake[1].OfGroupCPU)
	}
	got := []float64{r.Intake[0].OfSingle, r.Intake[0].OfGroup, r.Intake[1].OfSingle, r.Intake[1].OfGroup, r.Intake[1].OfRows, r.Intake[1].OfHTTP}
	if diff := cmp.Diff([]float64{0.5, 0.025, 1.2, 0.3, 0.6, 0.3}, got); diff != "" {
		t.Errorf("ratios (-want +got):\n%s", diff)
	}
	for _, tc := range []struct {
		perSecond, p99 float64
		want           bool
	}{{600, 20, true}, {499, 20, false}, {600, 50, false}} {
		r := report(tc.perSecond, tc.p99)
		if r.judge(); r.MeetsGoal == nil || *r.MeetsGoal != tc.want {
			t.Errorf("%v/s with p99 %v ms: meets the goal %v, want %v", tc.perSecond, tc.p99, r.MeetsGoal, tc.want)
		}
	}
}
