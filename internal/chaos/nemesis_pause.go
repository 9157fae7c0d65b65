package chaos

import (
	"context"
	"slices"
	"syscall"
	"time"
)

// asleep is longer than any claim lasts without a sign of life.
const asleep = 4 * time.Second

var pausedRunner = nemesis{
	name: "runner-paused", what: "a runner is stopped with SIGSTOP for 4 s, past its claims, and wakes up",
	strike: func(ctx context.Context, r *rig) error { return r.pauseOne(ctx, "runner") },
}

var pausedTools = nemesis{
	name: "tools-paused", what: "a tools worker is stopped with SIGSTOP for 4 s, past its claims, and wakes up",
	strike: func(ctx context.Context, r *rig) error { return r.pauseOne(ctx, "tools") },
}

func (r *rig) pauseOne(ctx context.Context, role string) error {
	names := r.sup.Running(role)
	slices.Sort(names)
	victim := names[0] // the edge leads to the last
	if err := r.sup.Signal(victim, syscall.SIGSTOP); err != nil {
		return err
	}
	rest(ctx, asleep)
	return r.sup.Signal(victim, syscall.SIGCONT)
}
