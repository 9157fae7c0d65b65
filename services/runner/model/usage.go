package model

import (
	"strconv"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// count is a number of tokens as a provider reports it. Null, what is no whole
// number and what no answer can cost is not reported at all: a broken counter
// makes no answer unreadable.
type count int64

// maxCount is more than any answer costs.
const maxCount = 1 << 32

// UnmarshalJSON never fails.
func (c *count) UnmarshalJSON(raw []byte) error {
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil && n >= 0 && n <= maxCount {
		*c = count(n)
	}
	return nil
}

// reported is what a provider says an answer cost.
type reported struct {
	input     count // all of it, what was read from and written to a cache included
	read      count
	write     count
	output    count // all of it, reasoning included
	reasoning count
	partial   bool // the output was still growing when it was counted
}

// What a model wrote in more bytes than this for a token was not counted whole: some
// servers count the last chunk alone. A few words may be anything.
const (
	mostBytes = 200
	slack     = 400
)

// wrote is how many bytes of an answer are the model's own words.
func wrote(a runner.Answer) (n int64) {
	for _, c := range a.Calls {
		n += int64(len(c.Args))
	}
	return n + int64(len(a.Text))
}

// usage fills in what the provider left out, by bytes and rather too high, and
// says so: a budget that a broken counter passes by is none.
func (u reported) usage(r runner.Request, a runner.Answer) events.Usage {
	out := events.Usage{
		InputTokens: int64(u.input), CacheReadTokens: int64(min(u.read, u.input)), CacheWriteTokens: int64(min(u.write, u.input-min(u.read, u.input))),
		OutputTokens: int64(u.output), ReasoningTokens: int64(min(u.reasoning, u.output)),
	}
	if u.input == 0 {
		out.InputTokens, out.Estimated = r.EstimateInput(), true
	}
	if u.output == 0 || u.partial || wrote(a) > mostBytes*int64(u.output)+slack {
		out.OutputTokens, out.Estimated = max(out.OutputTokens, int64(len(a.Raw)/3+1)), true
	}
	return out
}
