package web

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"unicode/utf8"
)

// GraphNode is a step of a flow as its graph shows it.
type GraphNode struct {
	Name, Kind, Starts string // Starts: what it runs or calls
	Href               string // of the page of what it starts
	Each, When, Then   string // for each of which list, under which condition, what a failure means
	Nested             bool   // it starts another flow
	State, About       string // of a run: the class of what the step is at, and words for it
	Needs              []string
}

// Graph is a drawing of steps from left to right: each stands right of all that it needs.
type Graph struct {
	Width, Height int
	Boxes         []GraphBox
	Edges         []string // the d of a path
}

// GraphBox is a step in its place, with texts that fit in.
type GraphBox struct {
	X, Y, W, H                 int
	Name, About, More          string
	NameY, AboutY, MoreY, Edge int
	Each, When, Nested         bool
	State                      string
}

// Sizes of a drawing, in points.
const (
	boxWidth, boxHeight = 196, 62
	gapX, gapY          = 44, 16
	laneHeight          = 14 // of an edge that passes a column
	graphMargin         = 8
	boxChars            = 27
)

// place is a step, or an edge on its way through a column.
type place struct {
	node   int // -1: a passing edge
	column int
	from   []*place
	sort   float64
	y, h   int
}

// Layout places the steps of a flow. It is pure; a step that needs an unknown one or
// itself, which no valid flow has, is drawn without that edge.
func Layout(nodes []GraphNode) *Graph {
	if len(nodes) == 0 {
		return nil
	}
	at := map[string]int{}
	for i, n := range nodes {
		at[n.Name] = i
	}
	needs := reduced(nodes, at)
	column := columns(needs)
	var cols [][]*place
	add := func(p *place) *place {
		for len(cols) <= p.column {
			cols = append(cols, nil)
		}
		cols[p.column] = append(cols[p.column], p)
		return p
	}
	places := make([]*place, len(nodes))
	for i := range nodes {
		places[i] = add(&place{node: i, column: column[i], h: boxHeight})
	}
	lanes := map[[2]int]*place{} // of edges from one step in one column
	for i := range nodes {
		for _, need := range needs[i] {
			last := places[need]
			for c := column[need] + 1; c < column[i]; c++ {
				lane := lanes[[2]int{need, c}]
				if lane == nil {
					lane = add(&place{node: -1, column: c, h: laneHeight, from: []*place{last}})
					lanes[[2]int{need, c}] = lane
				}
				last = lane
			}
			places[i].from = append(places[i].from, last)
		}
	}
	return draw(nodes, cols)
}

// reduced are the needs of each step without those that follow from the others.
func reduced(nodes []GraphNode, at map[string]int) [][]int {
	direct := make([][]int, len(nodes))
	for i, n := range nodes {
		for _, name := range n.Needs {
			if j, ok := at[name]; ok && j < i && !slices.Contains(direct[i], j) { // a step needs earlier ones
				direct[i] = append(direct[i], j)
			}
		}
	}
	before := make([]map[int]bool, len(nodes)) // all that a step needs, directly or not
	for i := range nodes {
		before[i] = map[int]bool{}
		for _, j := range direct[i] {
			before[i][j] = true
			for k := range before[j] {
				before[i][k] = true
			}
		}
	}
	out := make([][]int, len(nodes))
	for i := range nodes {
		for _, j := range direct[i] {
			if !slices.ContainsFunc(direct[i], func(k int) bool { return before[k][j] }) {
				out[i] = append(out[i], j)
			}
		}
	}
	return out
}

func columns(needs [][]int) []int {
	out := make([]int, len(needs))
	for i := range needs {
		for _, j := range needs[i] {
			out[i] = max(out[i], out[j]+1)
		}
	}
	return out
}

func draw(nodes []GraphNode, cols [][]*place) *Graph {
	g := &Graph{}
	for c, col := range cols {
		for i, p := range col {
			p.sort = float64(i) // as the flow lists them
			if c > 0 && len(p.from) > 0 {
				p.sort = 0
				for _, f := range p.from {
					p.sort += float64(f.y+f.h/2) / float64(len(p.from))
				}
			}
		}
		slices.SortStableFunc(col, func(a, b *place) int { return cmp.Compare(a.sort, b.sort) })
		y := graphMargin
		for _, p := range col {
			// Beside what it needs where there is room, so that edges run level.
			p.y = y
			if c > 0 && len(p.from) > 0 {
				p.y = max(y, int(p.sort)-p.h/2)
			}
			y = p.y + p.h + gapY
			g.Height = max(g.Height, p.y+p.h+graphMargin)
		}
	}
	g.Width = graphMargin*2 + len(cols)*boxWidth + (len(cols)-1)*gapX
	for _, col := range cols {
		for _, p := range col {
			x := graphMargin + p.column*(boxWidth+gapX)
			for _, f := range p.from {
				fx := graphMargin + f.column*(boxWidth+gapX) + boxWidth
				g.Edges = append(g.Edges, fmt.Sprintf("M%d %dC%d %d %d %d %d %d", fx, f.y+f.h/2, fx+gapX/2, f.y+f.h/2, x-gapX/2, p.y+p.h/2, x, p.y+p.h/2))
			}
			if p.node < 0 {
				g.Edges = append(g.Edges, fmt.Sprintf("M%d %dH%d", x, p.y+p.h/2, x+boxWidth))
				continue
			}
			g.Boxes = append(g.Boxes, boxOf(nodes[p.node], x, p.y))
		}
	}
	return g
}

func boxOf(n GraphNode, x, y int) GraphBox {
	more := make([]string, 0, 2)
	if n.When != "" {
		more = append(more, "when "+n.When)
	}
	if n.Each != "" {
		more = append(more, "for each of "+n.Each)
	}
	return GraphBox{X: x, Y: y, W: boxWidth, H: boxHeight, Edge: x + 10, NameY: y + 21, AboutY: y + 38, MoreY: y + 53,
		State: n.State, Name: fit(n.Name, boxChars-3), About: fit(cmp.Or(n.About, strings.TrimSpace(n.Kind+" "+n.Starts)), boxChars), More: fit(strings.Join(more, ", "), boxChars+4),
		Each: n.Each != "", When: n.When != "", Nested: n.Nested}
}

// fit cuts a text to so many characters.
func fit(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// agentFuncs are the functions of the pages about definitions.
var agentFuncs = template.FuncMap{
	"sign": func(r rune) string {
		if r == '-' {
			return "−"
		}
		return strings.TrimSpace(string(r))
	},
	"join": func(list []string) string { return strings.Join(list, ", ") },
	"add":  func(a, b int) int { return a + b },
}
