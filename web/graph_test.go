package web

import (
	"fmt"
	"strings"
	"testing"
)

// places lays steps out and returns their boxes by name.
func laid(t *testing.T, nodes ...GraphNode) (*Graph, map[string]GraphBox) {
	t.Helper()
	g := Layout(nodes)
	out := map[string]GraphBox{}
	for _, b := range g.Boxes {
		out[b.Name] = b
	}
	if len(out) != len(nodes) {
		t.Fatalf("%d boxes of %d steps", len(out), len(nodes))
	}
	for i, a := range g.Boxes {
		for _, b := range g.Boxes[i+1:] {
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%s and %s overlap", a.Name, b.Name)
			}
		}
		if a.X < 0 || a.Y < 0 || a.X+a.W > g.Width || a.Y+a.H > g.Height {
			t.Errorf("%s is outside the drawing", a.Name)
		}
	}
	return g, out
}

func TestLayout_EachStepStandsRightOfWhatItNeeds(t *testing.T) {
	t.Parallel()
	nodes := []GraphNode{
		{Name: "load", Kind: "tool", Starts: "list-shops"},
		{Name: "check", Kind: "agent", Starts: "shop-check", Each: "${steps.load.output}", Needs: []string{"load"}},
		{Name: "ask", Kind: "approval", When: "size(steps.check.outputs) > 0", Needs: []string{"check"}},
		{Name: "deep", Kind: "flow", Starts: "other", Nested: true, Needs: []string{"load"}},
		{Name: "sum", Kind: "agent", Starts: "sum", Needs: []string{"ask", "deep", "load"}},
	}
	g, at := laid(t, nodes...)
	for _, n := range nodes {
		for _, need := range n.Needs {
			if at[need].X+at[need].W >= at[n.Name].X {
				t.Errorf("%s does not stand right of %s", n.Name, need)
			}
		}
	}
	// load → sum follows from the others; deep is the one that passes a column on its way to sum.
	if want := 7; len(g.Edges) != want {
		t.Errorf("%d edges, want %d: %q", len(g.Edges), want, g.Edges)
	}
	if b := at["check"]; !b.Each || b.When || !strings.HasPrefix(b.More, "for each of ${steps.load") {
		t.Errorf("check: %+v", b)
	}
	if b := at["ask"]; !b.When || b.Each || !strings.HasPrefix(b.More, "when size(") || !strings.HasSuffix(b.More, "…") {
		t.Errorf("ask: %+v", b)
	}
	if !at["deep"].Nested || at["sum"].Nested {
		t.Error("a step that starts a flow looks like others, or another like it")
	}
}

func TestLayout_WideAndDeep(t *testing.T) {
	t.Parallel()
	wide := []GraphNode{{Name: "first"}}
	for i := range 98 {
		wide = append(wide, GraphNode{Name: fmt.Sprintf("w%d", i), Needs: []string{"first"}})
	}
	var all []string
	for _, n := range wide[1:] {
		all = append(all, n.Name)
	}
	g, _ := laid(t, append(wide, GraphNode{Name: "last", Needs: all})...)
	if g.Width > 800 || len(g.Edges) != 196 {
		t.Errorf("wide: %d points, %d edges", g.Width, len(g.Edges))
	}
	deep := []GraphNode{{Name: "d0"}}
	for i := range 99 {
		deep = append(deep, GraphNode{Name: fmt.Sprintf("d%d", i+1), Needs: []string{fmt.Sprintf("d%d", i), "d0"}})
	}
	if g, _ := laid(t, deep...); g.Height != boxHeight+2*graphMargin || len(g.Edges) != 99 {
		t.Errorf("deep: %d points high, %d edges", g.Height, len(g.Edges))
	}
}

func TestLayout_NeedsOfNobodyAndOfItself(t *testing.T) {
	t.Parallel()
	if g, _ := laid(t, GraphNode{Name: "a", Needs: []string{"a", "b", "nobody"}}, GraphNode{Name: "b", Needs: []string{"b", "a", "a"}}); len(g.Edges) != 1 {
		t.Errorf("edges: %q", g.Edges)
	}
	if Layout(nil) != nil {
		t.Error("nothing has a drawing")
	}
}
