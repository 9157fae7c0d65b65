package runner

import (
	"encoding/json"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// order is a command that was recorded and has its place among those to the run.
type order struct {
	ID    string
	Place int
}

// steers is what a command with a place decides: whether the run stands still, or
// how high one ceiling is. Of two about the same, the later one holds.
func steers(c events.Command) string {
	if c.Budget == "" {
		return "pause"
	}
	return "ceiling " + c.Budget
}

// ordered remembers that c was recorded, whatever came of it.
func (s *State) ordered(c events.Command) {
	what := steers(c)
	if c.Place <= s.Orders[what].Place {
		return
	}
	orders := make(map[string]order, len(s.Orders)+1)
	for k, v := range s.Orders { // clones share what is there
		orders[k] = v
	}
	orders[what] = order{ID: c.ID, Place: c.Place}
	s.Orders = orders
}

// overtaken is the id of the order that was given behind c, about the same, and
// is recorded already; empty when c is the last word. Messages come again and in any
// order, and what their door took last is what holds.
func (s *State) overtaken(c events.Command) string {
	if later := s.Orders[steers(c)]; c.Place > 0 && later.Place > c.Place {
		return later.ID
	}
	return ""
}

// lateCommand keeps a command that changes nothing.
func (d *decision) lateCommand(c events.Command) error {
	return d.add(events.FactLateResult, events.LateResult{Type: events.TypeCommandRun, Data: mustJSON(c), Overtaken: d.state.overtaken(c)}, true)
}

// late folds what changed nothing. A command among it has been given all the same.
func (s *State) late(l events.LateResult) error {
	if l.Type != events.TypeCommandRun {
		return nil
	}
	var c events.Command
	if err := json.Unmarshal(l.Data, &c); err != nil {
		return err
	}
	s.ordered(c)
	return nil
}
