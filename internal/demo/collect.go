package demo

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-run/holdfast/internal/lab"
	"github.com/holdfast-run/holdfast/internal/scriptmodel"
)

// collect reads everything the verdict needs.
func (s *scene) collect(ctx context.Context) (facts, error) {
	f := facts{
		Seed: s.plan.Seed, Scripted: s.scripted, Took: s.p.Took(), Kills: s.kills, ToolsKilled: s.toolsKills,
		Deaths: s.sup.Deaths(), Incidents: s.incidents, Expected: shopCount + 2,
	}
	var err error
	if f.Tally, err = lab.ReadTally(s.prices); err != nil {
		return f, err
	}
	family, err := s.truth.family(ctx, s.flow)
	if err != nil {
		return f, fmt.Errorf("runs: %w", err)
	}
	completed := map[string]bool{}
	for _, c := range family {
		key := conversationOf(s.flow, c)
		s.runs[key] = c.RunID
		f.Runs = append(f.Runs, runFact{ID: c.RunID, Kind: c.Kind, Name: c.Name, Status: c.Status, Shop: shopIn(key)})
		completed[c.RunID] = c.Status == "completed"
	}
	for i := range f.Kills {
		for j := range f.Kills[i].Claims {
			c := &f.Kills[i].Claims[j]
			c.Completed = completed[c.RunID]
		}
	}
	if f.Doubts, err = s.truth.doubts(ctx); err != nil {
		return f, fmt.Errorf("doubts: %w", err)
	}
	if f.Journal, err = s.truth.journal(ctx); err != nil {
		return f, fmt.Errorf("journal: %w", err)
	}
	decided, posts, pairs, accepted, other := s.desk.tally()
	f.Approved = len(decided)
	f.Approvals = approvalsFact{Posts: posts, Pairs: pairs, Accepted: accepted, Other: other}
	if f.Approvals.Requests, f.Approvals.Decided, f.Approvals.Heard, err = s.truth.approvals(ctx); err != nil {
		return f, fmt.Errorf("approvals: %w", err)
	}
	f.Budget = budgetFact{Pool: poolName, Ceiling: s.raise.before, Raised: s.raise.to}
	if _, f.Budget.Used, f.Budget.Rows, err = s.truth.budget(ctx, poolName); err != nil {
		return f, fmt.Errorf("budget: %w", err)
	}
	paused, err := s.truth.pausedFor(ctx, poolName)
	if err != nil {
		return f, fmt.Errorf("paused runs: %w", err)
	}
	f.Budget.Paused = len(paused)
	if f.Budget.Raises, err = s.truth.raises(ctx, poolName); err != nil {
		return f, fmt.Errorf("raises: %w", err)
	}
	f.Budget.Alerts, f.Budget.Copies = s.alerts.alerts()
	if s.scripted {
		err = s.collectScript(ctx, &f)
	}
	return f, err
}

// collectScript reads what only the script makes exact.
func (s *scene) collectScript(ctx context.Context, f *facts) error {
	count := func(key string) (requests, inFlight int) {
		for _, e := range s.model.Exchanges() {
			if key != "" && e.Key != key {
				continue
			}
			requests++
			if diedWith(f.Kills, e) {
				inFlight++
			}
		}
		return requests, inFlight
	}
	f.Model = "scripted"
	f.Journal.Requests, f.Journal.InFlight = count("")
	f.Focus.RunID = s.runs[inFocus]
	f.Focus.Requests, f.Focus.InFlight = count(inFocus)
	var err error
	if f.Focus.Answers, _, _, err = s.truth.answers(ctx, f.Focus.RunID, "fetch_page"); err != nil {
		return fmt.Errorf("answers of child 17: %w", err)
	}
	for _, k := range f.Kills {
		for _, c := range k.Claims {
			if c.RunID == f.Focus.RunID && f.Focus.SeqAtKill == 0 {
				f.Focus.SeqAtKill, f.Focus.FirstSeq, f.Focus.WorkerBefore, f.Focus.WorkerAfter = c.Seq, c.FirstSeq, k.Worker, c.FirstBy
			}
		}
	}
	f.ManyPages.Fetched = s.web.count(manyPagesShop)
	if _, f.ManyPages.BudgetResults, f.ManyPages.Asked, err = s.truth.answers(ctx, s.runs[manyPagesShop], "fetch_page"); err != nil {
		return fmt.Errorf("answers of shop 23: %w", err)
	}
	for _, v := range s.model.Violations() {
		f.Broken = append(f.Broken, fmt.Sprintf("%s, answer %d: %s", v.Key, v.Turn+1, v.Message))
	}
	return nil
}

// diedWith reports whether an exchange was in flight at one of the kills.
func diedWith(kills []runnerKill, e scriptmodel.Exchange) bool {
	return slices.ContainsFunc(kills, func(k runnerKill) bool { return slices.Contains(k.InFlight, e.ID) })
}
