package bench

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"
)

// mostOps bounds a row, whatever its duration.
const mostOps = 2_000_000

// sample is what one row measured.
type sample struct {
	took    []time.Duration // of each operation
	elapsed time.Duration
}

// hammer calls do from clients at once until d has passed. The first error ends
// it.
func hammer(ctx context.Context, clients int, d time.Duration, do func(context.Context) error) (sample, error) {
	return run(ctx, clients, d, func(context.Context) (func(context.Context) error, func(), error) {
		return do, func() {}, nil
	})
}

// run gives each client what open returns and lets it repeat that until d has
// passed.
func run(ctx context.Context, clients int, d time.Duration, open func(context.Context) (do func(context.Context) error, end func(), err error)) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, d+30*time.Second) // what hangs must not hang the bench
	defer cancel()
	all := make([][]time.Duration, clients)
	errs := make([]error, clients)
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	var began time.Time
	for i := range clients {
		ready.Add(1)
		done.Go(func() {
			do, end, err := open(ctx)
			ready.Done()
			if err != nil {
				errs[i] = err
				return
			}
			defer end()
			<-start
			for at := time.Now(); at.Sub(began) < d && len(all[i]) < mostOps/clients; {
				if errs[i] = do(ctx); errs[i] != nil {
					cancel()
					return
				}
				now := time.Now()
				all[i] = append(all[i], now.Sub(at))
				at = now
			}
		})
	}
	ready.Wait()
	began = time.Now()
	close(start)
	done.Wait()
	s := sample{elapsed: time.Since(began), took: slices.Concat(all...)}
	slices.Sort(s.took)
	return s, errors.Join(firstOf(errs))
}

// firstOf is one error of many clients: they mostly fail alike.
func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// percentile is the nearest-rank percentile of the sorted durations.
func (s sample) percentile(p float64) time.Duration {
	if len(s.took) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(s.took))))
	return s.took[min(max(rank, 1), len(s.took))-1]
}

// into writes what the operations took, and how many there were in a second: what a
// row's window has beside them does not count.
func (s sample) into(r *Row) {
	r.PerSecond = float64(len(s.took)) / max(s.elapsed.Seconds(), 1e-9)
	r.P50Ms, r.P99Ms = ms(s.percentile(50)), ms(s.percentile(99))
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
