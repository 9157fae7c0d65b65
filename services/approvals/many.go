package approvals

import (
	"context"
	"sync"
)

// MaxMany is how many requests one call decides.
const MaxMany = 200

// manyAtOnce bounds the connections that one call holds.
const manyAtOnce = 8

// Decision is what became of one of many attempts.
type Decision struct {
	Request  Request
	Repeated bool
	Err      error // as of Decide
}

// DecideMany makes every attempt by itself, as Decide does: one that fails touches
// no other, and sent again each is found decided. The result has the attempts'
// order.
func (s *Service) DecideMany(ctx context.Context, attempts []Attempt) []Decision {
	out := make([]Decision, len(attempts))
	free := make(chan struct{}, manyAtOnce)
	var wg sync.WaitGroup
	for i, a := range attempts {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			if out[i].Err = ctx.Err(); out[i].Err != nil {
				return
			}
			out[i].Request, out[i].Repeated, out[i].Err = s.Decide(ctx, a)
		})
	}
	wg.Wait()
	return out
}
