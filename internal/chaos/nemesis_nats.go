package chaos

import (
	"context"
	"os"
	"time"
)

var natsRestarted = nemesis{
	name: "nats-killed", what: "NATS is killed and comes back after a second",
	strike: func(ctx context.Context, r *rig) error { return r.loseNATS(ctx, false) },
}

var natsLost = nemesis{
	name: "nats-lost", what: "NATS is killed and its whole data directory is deleted",
	strike: func(ctx context.Context, r *rig) error { return r.loseNATS(ctx, true) },
}

func (r *rig) loseNATS(ctx context.Context, data bool) error {
	if _, err := r.sup.Kill("nats", "under load"); err != nil {
		return err
	}
	if data {
		if err := os.RemoveAll(r.services.NATSDir); err != nil {
			return err
		}
	}
	rest(ctx, time.Second)
	return r.sup.Restart(ctx, "nats")
}
