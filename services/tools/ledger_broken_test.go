//go:build holdfast_broken_ledger

package tools_test

import (
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Without the intent a crash between act and record acts twice, and says so
// nowhere.
func TestBroken_ActsTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.call("pay", `{"n":1}`)
	w.killed(c, "tools.acted")
	w.answer(c.CallID, events.CallSucceeded)
	w.wantEffects(c, 2)
}
