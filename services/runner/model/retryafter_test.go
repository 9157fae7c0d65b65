package model

import (
	"net/http"
	"testing"
	"time"
)

// How long a provider wants to be left alone, in every form in which it says so.
// What makes no sense is no wait, and the run's own one holds.
func TestWaitFor_EveryForm(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 2, 0, 0, 300_000_000, time.UTC)
	for name, tc := range map[string]struct {
		after, ms string
		want      time.Duration
	}{
		"seconds":                      {after: "20", want: 20 * time.Second},
		"seconds in spaces":            {after: " 20 ", want: 20 * time.Second},
		"a date":                       {after: "Sun, 29 Nov 2026 02:00:20 GMT", want: 20 * time.Second}, // 19.7 s, rounded up
		"a date in the oldest form":    {after: "Sun Nov 29 02:00:20 2026", want: 20 * time.Second},
		"a date that has passed":       {after: "Sun, 29 Nov 2026 01:59:00 GMT"},
		"milliseconds, which go first": {after: "20", ms: "1500", want: 1500 * time.Millisecond},
		"broken milliseconds":          {after: "20", ms: "soon", want: 20 * time.Second},
		"nothing":                      {},
		"zero":                         {after: "0"},
		"less than nothing":            {after: "-5"},
		"a fraction":                   {after: "1.5"},
		"a word":                       {after: "later"},
	} {
		h := http.Header{}
		if tc.after != "" {
			h.Set("Retry-After", tc.after)
		}
		if tc.ms != "" {
			h.Set("Retry-After-Ms", tc.ms)
		}
		if got := waitFor(h, now); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
