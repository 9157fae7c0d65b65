package bench

import "context"

// readsWorkload is turns that only look: no intent comes before the request.
var readsWorkload = Workload{
	Name: "reads", Unit: "turns", Levels: []int{1, 64, 512},
	Doc:      "The same with a read tool over HTTP.",
	Stages:   turnStages,
	services: []string{scriptedRunner, "trigger", "tools"},
	run:      func(ctx context.Context, l *lab) error { return l.turns(ctx, readsHook) },
}
