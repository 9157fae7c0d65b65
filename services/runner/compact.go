package runner

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

const (
	// codeSummary is the failure of a model call that was to give a summary and gave
	// nothing that can stand for the conversation.
	codeSummary = "summary"
	// maxSummaries is how many such answers in a row are paid for.
	maxSummaries = 3
	// maxSummaryBytes bounds what goes into every later request.
	maxSummaryBytes = 64 << 10
	// maxWindows is how many answers in a row may end because the window is full.
	maxWindows = 3
)

// SummaryAsk is what the model reads when it is to summarize.
const SummaryAsk = "This conversation has become too long. Everything up to here will be replaced by what you answer now, and nothing else of it stays. " +
	"Do not go on with the task and call no tool: answer with a summary in plain text, whatever form your final answer is to have. " +
	"Write down all that is needed to go on: what you were asked for and what people said since, what was done and what came of it " +
	"(ids, numbers, names and addresses exactly), what is not known to have happened, what was decided and why, what is open, and what you would do next."

// summaryHead stands before a summary in later requests.
const summaryHead = "[The conversation so far was shortened. This is your own summary of what was said and done; what follows it stands as it was.]\n\n"

// compact starts to shorten the conversation of a run that owes a model call, when
// the next request would be larger than the agent wants.
func (d *decision) compact(plan *Plan) (started bool, err error) {
	s, c := d.state, plan.Agent.Context
	if c == nil || c.CompactAt == 0 || s.Compacting != nil {
		return false, nil
	}
	cut := s.cutBefore(len(s.Turns) - c.Kept())
	if cut <= s.cut() {
		return false, nil
	}
	r, err := NextRequest(s, plan, 0)
	if err != nil {
		return false, nil // the request fails for its own reason
	}
	size := s.nextInput(r)
	if size <= c.CompactAt || !s.worthwhile(r, cut) {
		return false, nil
	}
	return true, d.add(events.FactCompactionStarted, events.CompactionStarted{UpTo: s.Turns[cut-1].Seq, Why: events.CompactThreshold, Tokens: size}, false)
}

// squeeze starts to shorten a conversation that does not fit the model's window.
// Each time at least one more answer is put away, so it ends.
func (d *decision) squeeze(plan *Plan) (started bool, err error) {
	s, c := d.state, plan.Agent.Context
	if c == nil || s.inARow(overflowed) >= maxWindows {
		return false, nil
	}
	body := events.CompactionStarted{Why: events.CompactWindow}
	switch was := s.Compacting; {
	case was != nil && was.Brief:
		return false, nil
	case was != nil: // the request for the summary did not fit
		body.UpTo, body.Brief = was.UpTo, true
	default:
		cut := s.cutBefore(len(s.Turns) - c.Kept())
		if cut <= s.cut() {
			cut = s.cutBefore(len(s.Turns))
		}
		if cut <= s.cut() || !slices.ContainsFunc(s.Turns[s.cut():cut], func(t Turn) bool { return !unsaid(t.Answer) }) {
			return false, nil
		}
		body.UpTo = s.Turns[cut-1].Seq
	}
	return true, d.add(events.FactCompactionStarted, body, false)
}

// nextInput is how many tokens of input the request has: what the provider counted
// for the last answer, and what came since at two bytes a token. Without such a
// count all of it is estimated so.
func (s *State) nextInput(r Request) int64 {
	last := s.Turns[len(s.Turns)-1]
	if last.Answer.Usage.Estimated || last.Answer.Usage.InputTokens <= 0 || s.Compacted != nil && last.Seq < s.Compacted.Seq {
		return r.EstimateInput()
	}
	news := Request{}
	for i := len(r.Entries) - 1; i >= 0 && r.Entries[i].Assistant == ""; i-- {
		news.Entries = append(news.Entries, r.Entries[i])
	}
	return last.Answer.Usage.Total() + news.EstimateInput() - Request{}.EstimateInput()
}

// worthwhile reports whether what is put away is a third of the request at least:
// else each step would pay for a summary that makes little room.
func (s *State) worthwhile(r Request, cut int) bool {
	gone := 0
	for i := s.cut(); i < cut; i++ {
		if unsaid(s.Turns[i].Answer) {
			continue
		}
		gone += len(s.Turns[i].Answer.Raw)
		for _, c := range s.CallsInOrder(i) {
			gone += len(c.result().Text)
		}
	}
	return gone > 0 && int64(gone/2)*3 >= r.EstimateInput()
}

// summaryOf is the summary that an answer is; else why it is none, as a failed
// model call that was paid for.
func summaryOf(a Answer) error {
	why := ""
	switch {
	case len(a.Calls) > 0:
		why = "it asked for tools instead; none was called"
	case a.StopReason != StopEnd && a.StopReason != StopSequence && a.StopReason != StopTools:
		why = fmt.Sprintf("it ended with %.80q", a.StopReason)
	case strings.TrimSpace(a.Text) == "":
		why = "it is empty"
	case len(a.Text) > maxSummaryBytes:
		why = fmt.Sprintf("it has %d bytes; at most %d are kept", len(a.Text), maxSummaryBytes)
	default:
		return nil
	}
	usage := a.Usage
	return &ModelError{Code: codeSummary, Retry: true, Usage: &usage, Err: errors.New("the summary of the conversation cannot be used: " + why)}
}

// DecideSummary says what a summary adds to a run. It is pure. A run that was
// paused or cancelled meanwhile keeps it, one that has ended its cost.
func DecideSummary(s *State, plan *Plan, a Answer, by Claimed, now time.Time) (Decision, error) {
	d := &decision{state: s.Clone(), cause: by.Cause, worker: by.Worker, now: now}
	body := events.ContextCompacted{
		Summary: strings.TrimSpace(a.Text), Model: a.Model, RequestID: a.RequestID, Usage: a.Usage, Worker: by.Worker, Epoch: by.Epoch, DurationMs: a.Duration.Milliseconds(),
	}
	if m := plan.answering(s); m.Model != nil {
		body.ModelName, body.CostMicroUSD = m.Name, Cost(m.Prices, a.Usage)
	}
	if s.End != "" {
		err := d.add(events.FactLateResult, events.LateResult{Type: events.FactContextCompacted, Data: mustJSON(body)}, false)
		return Decision{Facts: d.facts, State: d.state}, err
	}
	if s.Compacting == nil {
		return Decision{}, fmt.Errorf("run %s: a summary that nobody asked for", s.RunID)
	}
	body.UpTo, body.Restated = s.Compacting.UpTo, s.restated(plan)
	if err := d.add(events.FactContextCompacted, body, false); err != nil {
		return Decision{}, err
	}
	err := d.advance(plan)
	return Decision{Facts: d.facts, State: d.state, Plan: d.plan}, err
}
