package demo

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/scriptmodel"
)

func passes(g *gate, ctx context.Context, key string) <-chan struct{} {
	done := make(chan struct{})
	go func() { g.pass(ctx, scriptmodel.Exchange{Key: key}); close(done) }()
	return done
}

func closedWithin(c <-chan struct{}, d time.Duration) bool {
	select {
	case <-c:
		return true
	case <-time.After(d):
		return false
	}
}

func TestGate(t *testing.T) {
	t.Parallel()
	owner := map[string]string{"shop-01": "w1", "shop-02": "w2", "shop-17": "w1"}
	g := newGate(func(_ context.Context, key string) string { return owner[key] })
	if !closedWithin(passes(g, t.Context(), "shop-01"), time.Second) {
		t.Fatal("an idle gate held an answer")
	}
	found := g.expect(func(e scriptmodel.Exchange) bool { return e.Key == "shop-17" })
	focus := passes(g, t.Context(), "shop-17")
	if e := <-found; e.Key != "shop-17" {
		t.Errorf("found %q", e.Key)
	}
	g.hold("w1")
	held := passes(g, t.Context(), "shop-01")
	if closedWithin(held, 80*time.Millisecond) || closedWithin(focus, 10*time.Millisecond) {
		t.Error("an answer to the victim went out")
	}
	if !closedWithin(passes(g, t.Context(), "shop-02"), time.Second) {
		t.Error("an answer to another worker was held")
	}
	dead, hangUp := context.WithCancel(t.Context())
	gone := passes(g, dead, "shop-01")
	hangUp()
	if !closedWithin(gone, time.Second) {
		t.Error("a caller that hung up is still waited for")
	}
	g.release()
	if !closedWithin(held, time.Second) || !closedWithin(focus, time.Second) {
		t.Error("the release left answers behind")
	}
	if !closedWithin(passes(g, t.Context(), "shop-17"), time.Second) {
		t.Error("the gate caught the focus twice")
	}
}
