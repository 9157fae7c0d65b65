package bench

import (
	"context"
	"slices"
)

// Workload is one thing that is measured.
type Workload struct {
	Name string
	Unit string // what is counted: "turns"
	Doc  string // one sentence
	// Levels are how many clients there are at once, one row each, unless
	// Config.Clients says otherwise. Nil: it has a size of its own.
	Levels []int
	// Stages are the parts of a unit, in order, and what each is from and to.
	Stages []StageDoc

	services []string // processes that take part, beside NATS
	run      func(ctx context.Context, l *lab) error
}

// StageDoc says what a stage is.
type StageDoc struct{ Name, Doc string }

// levels are how many clients a workload has at once.
func (w Workload) levels(c Config) []int {
	if w.Levels == nil || len(c.Clients) == 0 {
		return w.Levels
	}
	return c.Clients
}

// Workloads lists everything that is measured, in order.
func Workloads() []Workload {
	return []Workload{turnsWorkload, readsWorkload, sdkWorkload, flowWorkload, intakeWorkload, wakeWorkload, watchWorkload}
}

// Names are those of Workloads.
func Names() (names []string) {
	for _, w := range Workloads() {
		names = append(names, w.Name)
	}
	return names
}

// named are the workloads of names, in the order of Workloads; no name means all.
func named(names []string) (all []Workload) {
	for _, w := range Workloads() {
		if len(names) == 0 || slices.Contains(names, w.Name) {
			all = append(all, w)
		}
	}
	return all
}
