package chaos

import (
	"context"
	"time"
)

var rollingRestart = nemesis{
	name: "rolling-restart", what: "every process but NATS is stopped with SIGTERM and started again, one after the other",
	strike: func(ctx context.Context, r *rig) error {
		for _, p := range r.services.Programs {
			if p.Role == "nats" {
				continue
			}
			if err := r.sup.Term(p.Name, "rolling restart", 30*time.Second); err != nil {
				return err
			}
			if err := r.sup.Restart(ctx, p.Name); err != nil {
				return err
			}
		}
		return nil
	},
}
