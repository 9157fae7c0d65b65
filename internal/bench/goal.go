package bench

import "fmt"

// Verdict is what became of one goal.
type Verdict struct {
	Row     string  `json:"row"`
	Clients int     `json:"clients"`
	What    string  `json:"what"`
	AtMost  bool    `json:"at_most"` // else at least
	Got     float64 `json:"got"`
	Aim     float64 `json:"aim"`
	// Floor is what no release may fall below; nil when there is only an aim.
	Floor      *float64 `json:"floor,omitempty"`
	MeetsAim   bool     `json:"meets_aim"`
	BelowFloor bool     `json:"below_floor"` // of a ceiling: above it
}

// String says it in one line.
func (v Verdict) String() string {
	bound := "at least"
	if v.AtMost {
		bound = "at most"
	}
	line := fmt.Sprintf("%s, %d at once: %s is %.3g, want %s %.3g", v.Row, v.Clients, v.What, v.Got, bound, v.Aim)
	if v.Floor != nil {
		line = fmt.Sprintf("%s, %d at once: %s is %.3g, the floor is %s %.3g (aim %.3g)", v.Row, v.Clients, v.What, v.Got, bound, *v.Floor, v.Aim)
	}
	return line
}

// goal is a figure of a row that some bound is set for.
type goal struct {
	row     string
	clients int
	what    string
	atMost  bool
	aim     float64
	floor   *float64
	of      func(*Row) (float64, bool)
}

func (g goal) met(got, bound float64) bool {
	if g.atMost {
		return got <= bound
	}
	return got >= bound
}

// share is the ratio to a limit.
func share(limit string) func(*Row) (float64, bool) {
	return func(r *Row) (float64, bool) { got, ok := r.Of[limit]; return got, ok }
}

// goals hold on any machine: all are ratios, or counts for one unit.
var goals = []goal{
	{row: "turns", clients: 512, what: "share of the bare commit loop of 64 clients", aim: 0.4, floor: new(0.2), of: share("commit/64")},
	{row: "turns", clients: 512, what: "commits a turn", atMost: true, aim: 0.1, floor: new(0.1), of: func(r *Row) (float64, bool) { return r.Commits, true }},
	{row: "turns", clients: 512, what: "bytes of write-ahead log a turn", atMost: true, aim: 4096, floor: new(4096.0), of: func(r *Row) (float64, bool) { return r.WALBytes, true }},
	{row: "turns", clients: 1, what: "a turn in lone single-row commits", atMost: true, aim: 8, floor: new(12.0), of: func(r *Row) (float64, bool) { return r.InCommits, r.InCommits > 0 }},
	{row: "reads", clients: 512, what: "share of the bare commit loop of 64 clients", aim: 0.6, of: share("commit/64")},
	{row: "intake", clients: 64, what: "share of the group commit of a start's rows", aim: 0.5, of: share("start/64")},
	{row: "intake", clients: 64, what: "p99 in ms", atMost: true, aim: 50, of: func(r *Row) (float64, bool) { return r.P99Ms, true }},
}
