package runner

import (
	"errors"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Amounts is what one model call, and the tool calls of its answer, may use or
// has used.
type Amounts struct {
	Tokens     int64
	MicroUSD   int64
	ModelCalls int64
	ToolCalls  int64
	Steps      int64
}

// Of is the amount in a pool's unit.
func (a Amounts) Of(unit string) int64 {
	switch unit {
	case unitMicroUSD:
		return a.MicroUSD
	case unitModelCalls:
		return a.ModelCalls
	case unitToolCalls:
		return a.ToolCalls
	case unitSteps:
		return a.Steps
	}
	return a.Tokens
}

// EstimateInput is how many tokens the request is at most: a token is at least two
// bytes of any text a tokenizer does not degrade on, plus the provider's own
// preamble. It also stands in for what a provider does not say.
func (r Request) EstimateInput() int64 {
	bytes := len(r.System)
	for _, e := range r.Entries {
		bytes += len(e.User) + len(e.Assistant)
		for _, res := range e.Results {
			bytes += len(res.Text)
		}
	}
	for _, t := range r.Tools {
		bytes += len(t.Name)
		if t.Tool != nil {
			bytes += len(t.Description) + len(t.AskedInput().JSON())
		}
	}
	return int64(bytes/2) + 500
}

// Most is what the request may use at most by the prices p: all of its input at
// the dearest price that input has, and the largest answer.
func (r Request) Most(p *spec.Prices) Amounts {
	in := r.EstimateInput()
	out := Amounts{Tokens: in + r.MaxTokens, ModelCalls: 1, Steps: 1}
	if p != nil {
		dearest := spec.Prices{Input: max(p.Input, p.ReadPrice(), p.WritePrice()), Output: p.Output}
		out.MicroUSD = Cost(&dearest, events.Usage{InputTokens: in, OutputTokens: r.MaxTokens})
	}
	return out
}

// billed is what the provider is taken to bill for a failed attempt; nil for
// nothing. A stream that broke off was billed for its input and for what had
// come of the answer, and so was a request that nobody answered in time, for all
// that is known.
func (r Request) billed(err error) *events.Usage {
	e, ok := errors.AsType[*ModelError](err)
	if ok && e.Usage != nil {
		return e.Usage // it answered, with nothing of use
	}
	if !ok || !e.Begun && !e.Unknown {
		return nil
	}
	return &events.Usage{InputTokens: r.EstimateInput(), OutputTokens: min(int64(e.Seen+2)/3, max(r.MaxTokens, 0)), Estimated: true}
}

// usedBy is what a decided outcome of a model call takes from shared budgets: the
// answer, and the tool calls that began.
func usedBy(before, after *State, u *events.Usage, cost int64) Amounts {
	if after == nil {
		return Amounts{}
	}
	out := Amounts{ToolCalls: max(after.begunCalls()-before.begunCalls(), 0)}
	if u != nil {
		out.Tokens, out.MicroUSD, out.ModelCalls, out.Steps = u.Total(), cost, 1, 1
	}
	return out
}

// begunCalls counts the calls that were made or are kept back by a pause.
func (s *State) begunCalls() int64 {
	n := s.ToolCalls
	for _, c := range s.Calls {
		if c.State == callHeld && countsAsCall(c.Builtin) {
			n++
		}
	}
	return n
}
