package tools

import (
	"context"
	"fmt"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/internal/telemetry"
)

// wakeBatch is how many calls one statement takes.
const wakeBatch = 100

// Wake sends every call again whose next attempt is due. Several processes may
// do so at once; a call that is sent twice is begun once.
func (s *Service) Wake(ctx context.Context) error {
	for {
		calls, err := s.store.Due(ctx, wakeBatch)
		if err != nil {
			return fmt.Errorf("take due calls: %w", err)
		}
		for _, c := range calls {
			if err := failpoint.Hit("tools.woken", string(c.ID)); err != nil {
				return err
			}
			if err := s.sendAgain(ctx, c, fmt.Sprintf("w%d", s.now().UnixMilli())); err != nil {
				return err
			}
			s.log.DebugContext(ctx, "call sent again", telemetry.KeyCallID, c.ID)
		}
		if len(calls) < wakeBatch {
			return nil
		}
	}
}
