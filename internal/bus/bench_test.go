package bus_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/natsdev"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// BenchmarkRoundTrip publishes a message, handles it and waits for the handler:
// one at a time, and 256 in flight.
func BenchmarkRoundTrip(b *testing.B) {
	for name, inFlight := range map[string]int{"1": 1, "256": 256} {
		b.Run(name, func(b *testing.B) {
			dev, err := natsdev.Start(b.Context(), natsdev.Config{Dir: b.TempDir(), Port: -1})
			if err != nil {
				b.Fatal(err)
			}
			defer dev.Stop()
			x, err := bus.Connect(b.Context(), bus.Config{URL: config.Secret(dev.URL())})
			if err != nil {
				b.Fatal(err)
			}
			defer x.Close()
			if err := x.Provision(b.Context(), nil); err != nil {
				b.Fatal(err)
			}
			var waiting sync.Map // ce-id to channel
			k, err := x.Consume(b.Context(), bus.Consumption{
				Stream: events.StreamRuns, Durable: events.ConsumerRunner, Workers: 64,
				Handle: func(_ context.Context, m events.Received) error {
					if ch, ok := waiting.LoadAndDelete(m.ID); ok {
						close(ch.(chan struct{}))
					}
					return nil
				},
			})
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				_ = k.Stop(ctx)
			}()
			var n atomic.Int64
			b.ResetTimer()
			var wg sync.WaitGroup
			for range inFlight {
				wg.Go(func() {
					for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
						m := fact(int(i))
						done := make(chan struct{})
						waiting.Store(m.ID, done)
						if err := x.Publish(b.Context(), m); err != nil {
							b.Error(err)
							return
						}
						<-done
					}
				})
			}
			wg.Wait()
		})
	}
}
