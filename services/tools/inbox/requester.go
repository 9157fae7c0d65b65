package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/services/tools"
)

// Requester asks programs over b.
func Requester(b *bus.Bus) tools.Requester { return requester{b} }

type requester struct{ bus *bus.Bus }

// Request implements tools.Requester.
func (r requester) Request(ctx context.Context, subject string, header map[string][]string, body []byte) (map[string][]string, []byte, error) {
	reply, err := r.bus.Request(ctx, subject, header, body)
	switch {
	case errors.Is(err, bus.ErrNoResponders):
		err = fmt.Errorf("%w: %w", tools.ErrNobodyAnswers, err)
	case errors.Is(err, bus.ErrDisconnected), errors.Is(err, bus.ErrUnsendable):
		err = fmt.Errorf("%w: %w", tools.ErrNotConnected, err)
	}
	return reply.Header, reply.Data, err
}

// Gather implements tools.Requester.
func (r requester) Gather(ctx context.Context, subject string) ([][]byte, error) {
	replies, err := r.bus.Gather(ctx, subject)
	out := make([][]byte, len(replies))
	for i, reply := range replies {
		out[i] = reply.Data
	}
	return out, err
}
