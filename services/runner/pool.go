package runner

import (
	"time"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Window names the window of p's budget that now falls into: the first local
// day of it, "2026-11-29"; "all" for a budget without windows. A night that
// begins at 18:00 belongs to the day on which it begins.
func (p Pool) Window(now time.Time) string {
	_, name := p.Budget.Start(now)
	return name
}

// Hard reports whether the pool refuses what exceeds it; else it only alerts.
func (p Pool) Hard() bool { return p.Budget.OnExceeded != spec.OnExceededAlert }

// reserveTokens is what one model call may use at most: a token is at least two
// bytes of the request for any text a tokenizer does not degrade on, plus the
// provider's own tool preamble, plus the largest answer.
func reserveTokens(first, system string, entries []Entry, maxTokens int64) int64 {
	bytes := len(first) + len(system)
	for _, e := range entries {
		bytes += len(e.User) + len(e.Assistant)
		for _, r := range e.Results {
			bytes += len(r.Text)
		}
	}
	return int64(bytes/2) + 500 + maxTokens
}

// EstimateInput is how many tokens the request is, rather too high, for answers
// of providers that do not say.
func (r Request) EstimateInput() int64 { return reserveTokens("", r.System, r.Entries, 0) }
