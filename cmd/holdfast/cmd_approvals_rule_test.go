package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

func TestFieldsOf(t *testing.T) {
	t.Parallel()
	form := []events.FormField{{Name: "reason", Title: "Why?", Required: true, Schema: json.RawMessage(`{"type":"string"}`)}, {Name: "copies", Schema: json.RawMessage(`{"type":"integer"}`)}}
	got, err := fieldsOf(form, []string{"reason=7", "copies=2", "other=a=b"})
	if want := `{"copies":2,"other":"a=b","reason":"7"}`; err != nil || string(got) != want {
		t.Errorf("%s (%v), want %s", got, err, want)
	}
	for _, bad := range [][]string{{"reason"}, {"=x"}, {"reason=a", "reason=b"}} {
		if got, err := fieldsOf(form, bad); err == nil {
			t.Errorf("%v is taken: %s", bad, got)
		}
	}
	if got, err := fieldsOf(form, nil); got != nil || err != nil {
		t.Errorf("nothing is %s (%v)", got, err)
	}
}

func TestRule_IsSaidInWords(t *testing.T) {
	t.Parallel()
	rule := &events.DecisionRule{
		Form: []events.FormField{{Name: "reason", Title: "Why?", Required: true}, {Name: "note"}}, Calendar: &events.Calendar{TimeZone: "Europe/Berlin"}, Escalate: make([]events.Escalation, 2),
	}
	a := client.Approval{Rule: rule, Escalated: 1, EscalateAt: time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC), Overdue: true, ExpiresAt: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)}
	for got, want := range map[string]string{
		formLines(rule): "reason: Why? (needed)\nnote", counted(rule): "working hours in Europe/Berlin",
		escalation(a): "1 of 2 steps, the next at " + stamp(a.EscalateAt), expiry(a): "overdue since " + stamp(a.ExpiresAt),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if formLines(nil)+counted(nil)+escalation(client.Approval{}) != "" {
		t.Error("what no rule says is said")
	}
}
