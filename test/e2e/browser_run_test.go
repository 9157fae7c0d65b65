package e2e

import (
	"testing"

	"github.com/holdfast-run/holdfast/internal/browsertest"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// personReadsARun looks at the parts of a run's page: its bars lead to its rows, what
// was said can be read, and it fits on a phone.
func personReadsARun(t *testing.T, b *browsertest.Tab, d *deployment, id events.RunID) {
	t.Helper()
	b.Open(d.edge + "/ui/runs/" + string(id))
	b.Sees("#timeline", "approve order")
	if n := b.Count("#timeline rect.b-model"); n < 2 {
		t.Errorf("%d bars of model calls", n)
	}
	if n := b.Count(`#timeline rect[fill="url(#r-hatch)"]`); n < 2 { // one is the legend's
		t.Errorf("%d bars of waits for a person", n)
	}
	b.Click("#timeline .what a")
	if at := b.Location(); at != d.edge+"/ui/runs/"+string(id)+"#f2" {
		t.Errorf("the first bar leads to %s", at)
	}
	b.Picture("run-parts")
	b.Dark(true)
	b.Picture("run-parts-dark")
	b.Dark(false)
}
