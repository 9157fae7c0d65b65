package main

import (
	"fmt"
	"slices"
)

// target is one thing that a process can run.
type target struct {
	needs []string       // what must start before it, by name
	build func(*process) // adds its parts to the process
}

// targets is the one map of what a process can run and what each needs.
// "dev" changes the wiring, never the behaviour: it is the same services on
// servers that it starts itself.
var targets = map[string]target{
	"trigger":   {needs: []string{"bus"}, build: (*process).addTrigger},
	"runner":    {needs: []string{"bus"}, build: (*process).addRunner},
	"tools":     {needs: []string{"bus"}, build: (*process).addTools},
	"approvals": {needs: []string{"bus"}, build: (*process).addApprovals},
	"console":   {needs: []string{"bus"}, build: (*process).addConsole},
	"bus":       {build: (*process).addBus},
	"pgdev":     {build: (*process).addPostgres},
	"natsdev":   {build: (*process).addNATS},
	"migrate":   {build: (*process).addMigration},
	"dev": {
		needs: []string{"pgdev", "natsdev", "migrate", "console", "trigger", "tools", "approvals", "runner"},
		build: func(*process) {},
	},
}

// services lists the targets that are services, in the order in which they
// start.
var services = []string{"console", "trigger", "tools", "approvals", "runner"}

// expand returns the targets of names and everything that they need, each once
// and after what it needs.
func expand(names ...string) ([]string, error) {
	var order []string
	var visit func(string) error
	visit = func(name string) error {
		if slices.Contains(order, name) {
			return nil
		}
		t, ok := targets[name]
		if !ok {
			return fmt.Errorf("there is no target %q", name)
		}
		for _, need := range t.needs {
			if err := visit(need); err != nil {
				return err
			}
		}
		order = append(order, name)
		return nil
	}
	for _, name := range names {
		if err := visit(name); err != nil {
			return nil, err
		}
	}
	return order, nil
}
