package chaos

import (
	"context"
	"time"
)

var linesCut = nemesis{
	name: "lines-cut", what: "every connection to NATS or to Postgres is cut, in turn, eight times in three seconds",
	strike: func(ctx context.Context, r *rig) error {
		for i := range 8 {
			[]*line{r.toNATS, r.toPG}[i%2].cut()
			rest(ctx, 400*time.Millisecond)
		}
		return nil
	},
}

var linesSlow = nemesis{
	name: "lines-slow", what: "everything to and from NATS and Postgres takes 15 ms longer each way, for five seconds",
	strike: func(ctx context.Context, r *rig) error {
		for _, l := range []*line{r.toNATS, r.toPG} {
			l.slow(15 * time.Millisecond)
			defer l.slow(0)
		}
		rest(ctx, 5*time.Second)
		return nil
	},
}
