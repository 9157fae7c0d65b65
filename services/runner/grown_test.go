package runner

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// sameState compares what two states say, not how it is kept.
var sameState = cmp.Options{
	cmp.AllowUnexported(Call{}, Item{}, Step{}, retryDue{}),
	cmpopts.IgnoreFields(State{}, "rendered", "committed", "beginning", "written"),
	cmpopts.EquateEmpty(),
}

// Equal is for cmp.
func (g grown[K, V]) Equal(o grown[K, V]) bool {
	return cmp.Equal(g.everything(), o.everything(), sameState...)
}

// A clone holds what a copied map would, writing to it leaves its original alone,
// and few layers are looked through.
func TestGrown_IsAMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var g grown[int, int]
		want := map[int]int{}
		for i := range rapid.IntRange(0, 300).Draw(t, "n") {
			before, frozen := maps.Clone(want), g
			if rapid.Bool().Draw(t, "clone") {
				g = g.clone()
			}
			k := rapid.IntRange(0, 200).Draw(t, "k")
			if len(g.young) == 0 || rapid.Bool().Draw(t, "put") {
				g = g.clone()
				g.put(k, i)
				want[k] = i
			}
			if diff := cmp.Diff(before, frozen.everything()); diff != "" {
				t.Fatalf("a clone wrote to its original (-before +after):\n%s", diff)
			}
			got, ok := g.get(k)
			if v, have := want[k]; ok != have || got != v {
				t.Fatalf("get(%d) = %d, %v; want %d, %v", k, got, ok, v, have)
			}
			if len(g.old) > 9 {
				t.Fatalf("%d entries lie in %d layers", len(want), len(g.old))
			}
		}
		if diff := cmp.Diff(want, g.everything()); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	})
}
