package console

import (
	"testing"
	"time"
)

func TestNewCostQuery_WholeHours(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 5, 7, 42, 10, 0, time.UTC)
	for in, want := range map[[3]string]string{
		{"", "", ""}:         "agent 2026-02-26T07:00:00Z 2026-03-05T08:00:00Z",
		{"model", "90m", ""}: "model 2026-03-05T06:00:00Z 2026-03-05T08:00:00Z",
		{"label:customer", "2026-03-01", "2026-03-02"}:    "label:customer 2026-03-01T00:00:00Z 2026-03-02T00:00:00Z",
		{"day", "2026-03-01T10:30:00+02:00", ""}:          "day 2026-03-01T08:00:00Z 2026-03-05T08:00:00Z",
		{"label:", "", ""}:                                `by: "" is not the key of a label`,
		{"label:a b", "", ""}:                             `by: "a b" is not the key of a label`,
		{"colour", "", ""}:                                `by: "colour" is none of agent, flow, model, trigger, day and label:<key>`,
		{"", "soon", ""}:                                  `since: "soon" is neither a length of time like 7d nor a moment like 2026-03-01 or 2026-03-01T08:00:00Z`,
		{"", "", "7d"}:                                    `until: "7d" is not a moment like 2026-03-01 or 2026-03-01T08:00:00Z`,
		{"", "2026-03-02", "2026-03-01T00:00:00Z"}:        `since: 2026-03-02T00:00:00Z is not before the end, 2026-03-01T00:00:00Z`,
		{"", "2026-03-05T07:00:00Z", "2026-03-05T07:59Z"}: `until: "2026-03-05T07:59Z" is not a moment like 2026-03-01 or 2026-03-01T08:00:00Z`,
	} {
		q, err := NewCostQuery("default", in[0], in[1], in[2], now)
		got := q.By + " " + q.Since.Format(time.RFC3339) + " " + q.Until.Format(time.RFC3339)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}
