package runner

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// A runner that has met many large runs keeps few of their inputs in memory.
func TestStateCache_BoundsWhatItKeeps(t *testing.T) {
	t.Parallel()
	c := newStateCache(100)
	input := make(json.RawMessage, 10<<20)
	put := func(n int, seq int64, end string) {
		s := NewState(events.RunID(fmt.Sprintf("r%d", n)), "default")
		s.Seq, s.Started.Input, s.End = seq, input, end
		c.put(s)
	}
	for n := range 20 {
		put(n, 1, "")
		put(n, 2, "") // the newer one replaces it
		put(n, 1, "") // an older one does not
	}
	if len(c.states) != 6 || c.bytes != 60<<20 {
		t.Errorf("%d states with %d bytes of input, want 6 with %d", len(c.states), c.bytes, 60<<20)
	}
	for n := range 20 {
		if s := c.get(events.RunID(fmt.Sprintf("r%d", n))); s != nil && s.Seq != 2 {
			t.Errorf("run %d is kept at row %d", n, s.Seq)
		}
		put(n, 3, events.StatusCompleted)
	}
	if len(c.states) != 0 || c.bytes != 0 {
		t.Errorf("%d states with %d bytes are left of ended runs", len(c.states), c.bytes)
	}
}
