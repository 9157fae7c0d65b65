package follow

import (
	"context"
	"log/slog"
)

// Follower serves the readers of one process. It is safe for concurrent use.
type Follower struct {
	tail    Tail
	history History
	hub     *Hub
	live    *liveHub
}

// New returns a follower that has heard nothing yet; Run listens. Without a
// tail (nil) a run is still followed, by looking at its history every two
// seconds, and there is no feed.
func New(tail Tail, history History, log *slog.Logger) *Follower {
	return &Follower{tail: tail, history: history, hub: NewHub(log), live: newLiveHub(tail, log)}
}

// Run listens to the tail until ctx ends.
func (f *Follower) Run(ctx context.Context) error {
	if f.tail == nil {
		<-ctx.Done()
		return nil
	}
	return f.hub.Run(ctx, f.tail)
}

// Position is the newest event that was heard.
func (f *Follower) Position() Position { return f.hub.Position() }
