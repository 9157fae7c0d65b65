package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// escalation says which steps have come and when the next one does; empty without any.
func escalation(a client.Approval) string {
	if a.Rule == nil || len(a.Rule.Escalate) == 0 {
		return ""
	}
	said := fmt.Sprintf("%d of %d steps", a.Escalated, len(a.Rule.Escalate))
	if !a.EscalateAt.IsZero() {
		said += ", the next at " + stamp(a.EscalateAt)
	}
	return said
}

// formLines lists what is filled in with a yes; empty for nothing.
func formLines(r *events.DecisionRule) string {
	var lines []string
	for _, f := range r.FormOf() {
		line := clean(f.Name)
		if f.Title != "" {
			line += ": " + clean(f.Title)
		}
		if f.Required {
			line += " (needed)"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// fieldsOf reads NAME=VALUE as the form of a rule wants it; nil for none.
func fieldsOf(form []events.FormField, given []string) (json.RawMessage, error) {
	if len(given) == 0 {
		return nil, nil
	}
	fields := map[string]json.RawMessage{}
	for _, one := range given {
		name, text, ok := strings.Cut(one, "=")
		if _, twice := fields[name]; !ok || name == "" || twice {
			return nil, fmt.Errorf("--field %q is not NAME=VALUE, each name once", one)
		}
		f := events.FormField{Name: name}
		for _, x := range form {
			if x.Name == name {
				f = x
			}
		}
		fields[name] = spec.FieldValue(f, text)
	}
	return events.Marshal(fields)
}

// counted says which time counts; empty when all of it does.
func counted(r *events.DecisionRule) string {
	if r == nil || r.Calendar == nil {
		return ""
	}
	return "working hours in " + r.Calendar.TimeZone
}
