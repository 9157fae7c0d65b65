package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

func TestEditLines(t *testing.T) {
	t.Parallel()
	got := editLines([]client.CallEdit{{
		Tool: "refund\x1b[31m", Args: json.RawMessage(`{"amount":500}`), By: "ann", Door: "slack", Comment: "half\nof it", At: time.Date(2026, 3, 5, 8, 51, 0, 0, time.UTC),
		Changes: []events.Change{{Path: "$.amount", From: json.RawMessage("500"), To: json.RawMessage("50")}},
	}})
	want := `refund\u001b[31m, asked as {"amount":500}, by ann at ` + stamp(time.Date(2026, 3, 5, 8, 51, 0, 0, time.UTC)) + " through slack: half of it\n  $.amount: 500 → 50\n"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
