package postgres

import (
	"time"

	"github.com/holdfast-run/holdfast/services/runner"
)

// commitList is what commitRuns takes, column by column: first one element for each
// commit, then what the commits add, of which each has a stretch.
type commitList struct {
	id, cause, worker, namespace, status, waiting, pausedFor, claimCause, digest, agent, root []string
	output, problem                                                                           []*string
	before, seq, modelCalls, toolCalls, tokens, claim, guard, reader, cost, guess             []int64
	messages, unread, cacheRead, cacheWrite, begins, most                                     []int64
	ends, anew, unclaimed                                                                     []bool
	cancelled                                                                                 []*time.Time
	rows, gone, opened, off, armed, spent                                                     stretches

	rowSeq                                               []int64
	rowKind, rowStatus, rowData, goneItem                []string
	rowInbound                                           []bool
	openItem, openKind, openDetail, offTimer, armedTimer []string
	due                                                  []time.Time
	model                                                []string
	calls, in, read, written, out, spentCost, spentGuess []int64
}

// stretches are where the parts of each commit begin and end, counted from one.
type stretches struct{ from, to []int64 }

func (s *stretches) add(n int) {
	var last int64
	if len(s.to) > 0 {
		last = s.to[len(s.to)-1]
	}
	s.from, s.to = append(s.from, last+1), append(s.to, last+int64(n))
}

// commitArgs are the parameters of commitRuns.
func commitArgs(all []runner.Commit) ([]any, error) {
	var l commitList
	for _, c := range all {
		if err := l.add(c); err != nil {
			return nil, err
		}
	}
	return []any{
		l.id, l.before, l.seq, l.cause, l.worker, l.namespace, l.status, l.waiting, l.output, l.problem,
		l.pausedFor, l.modelCalls, l.toolCalls, l.tokens, l.claim, l.claimCause, l.guard, l.ends, l.cancelled, l.reader,
		l.cost, l.guess, l.anew, l.messages, l.unread, l.digest, l.unclaimed, l.cacheRead, l.cacheWrite, l.agent,
		l.root, l.begins, l.most, l.rows.from, l.rows.to, l.gone.from, l.gone.to, l.opened.from, l.opened.to, l.off.from,
		l.off.to, l.armed.from, l.armed.to, l.spent.from, l.spent.to,
		l.rowSeq, l.rowKind, l.rowStatus, l.rowInbound, l.rowData, l.goneItem, l.openItem, l.openKind, l.openDetail, l.offTimer, l.armedTimer, l.due,
		l.model, l.calls, l.in, l.read, l.written, l.out, l.spentCost, l.spentGuess, len(all), len(l.model),
	}, nil
}

func (l *commitList) add(c runner.Commit) error {
	st := c.After
	var cancelled *time.Time
	if st.Cancel != nil && !c.CancelledAt.IsZero() {
		cancelled = &c.CancelledAt
	}
	heard, unread := st.Heard()
	l.id, l.before, l.seq = append(l.id, string(st.RunID)), append(l.before, c.Before.Seq), append(l.seq, st.Seq)
	l.cause, l.worker, l.namespace = append(l.cause, causeOf(c)), append(l.worker, c.Worker), append(l.namespace, st.Namespace)
	l.status, l.waiting, l.pausedFor = append(l.status, st.Status()), append(l.waiting, st.Waiting()), append(l.pausedFor, pausedFor(st))
	l.output, l.problem = append(l.output, jsonText(st.Ending.Output)), append(l.problem, problemText(whyNot(st)))
	l.modelCalls, l.toolCalls, l.tokens = append(l.modelCalls, st.ModelCalls), append(l.toolCalls, st.ToolCalls), append(l.tokens, st.Usage.Total())
	l.claim, l.claimCause, l.guard = append(l.claim, int64(c.Claim)), append(l.claimCause, c.Cause), append(l.guard, c.Guard.Epoch)
	l.ends, l.cancelled, l.reader = append(l.ends, st.End != "" && c.Before.End == ""), append(l.cancelled, cancelled), append(l.reader, int64(readerOf(c.Facts)))
	l.cost, l.guess, l.anew = append(l.cost, st.Cost), append(l.guess, st.CostGuess), append(l.anew, countsAnew(c))
	l.messages, l.unread, l.digest = append(l.messages, int64(heard)), append(l.unread, int64(unread)), append(l.digest, string(st.Started.Ref.Digest))
	l.unclaimed, l.cacheRead, l.cacheWrite = append(l.unclaimed, c.Unclaimed), append(l.cacheRead, st.Usage.CacheReadTokens), append(l.cacheWrite, st.Usage.CacheWriteTokens)
	l.agent, l.root = append(l.agent, st.Started.Ref.Name), append(l.root, string(st.Root()))
	l.begins, l.most = append(l.begins, startsOf(c)), append(l.most, c.MaxTreeRuns)
	return l.addParts(c)
}

func (l *commitList) addParts(c runner.Commit) error {
	for _, f := range c.Facts {
		l.rowSeq, l.rowKind, l.rowStatus = append(l.rowSeq, f.Seq), append(l.rowKind, f.Kind), append(l.rowStatus, f.Status)
		l.rowInbound, l.rowData = append(l.rowInbound, f.Inbound), append(l.rowData, string(f.Data))
	}
	l.rows.add(len(c.Facts))
	m := movesOf(c)
	l.goneItem, l.offTimer = append(l.goneItem, m.gone...), append(l.offTimer, m.off...)
	l.gone.add(len(m.gone))
	l.off.add(len(m.off))
	for _, p := range m.opened {
		l.openItem, l.openKind, l.openDetail = append(l.openItem, p.Item), append(l.openKind, p.Kind), append(l.openDetail, p.Detail)
	}
	l.opened.add(len(m.opened))
	for _, t := range m.armed {
		l.armedTimer, l.due = append(l.armedTimer, t.Name), append(l.due, t.Due)
	}
	l.armed.add(len(m.armed))
	spent, err := runner.Spent(c.Facts)
	for _, s := range spent {
		l.model, l.calls, l.in, l.read = append(l.model, s.Model), append(l.calls, s.Calls), append(l.in, s.InputTokens), append(l.read, s.CacheReadTokens)
		l.written, l.out, l.spentCost, l.spentGuess = append(l.written, s.CacheWriteTokens), append(l.out, s.OutputTokens), append(l.spentCost, s.Cost), append(l.spentGuess, s.Guess)
	}
	l.spent.add(len(spent))
	return err
}

// countsAnew reports whether lost workers are counted from none again: after
// progress of the claim's owner, and when a person lets a parked run go on.
func countsAnew(c runner.Commit) bool {
	resumed := c.Before.Attention != nil && c.After.Attention == nil && c.After.End == ""
	return resumed || c.Guard.Epoch > 0 && !c.Waits
}
