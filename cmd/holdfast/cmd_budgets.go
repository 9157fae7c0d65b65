package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// BudgetsCmd reads shared budgets and raises ceilings.
type BudgetsCmd struct {
	List  BudgetsListCmd  `cmd:"" help:"List the current window of every shared budget that a run has drawn on."`
	Show  BudgetsShowCmd  `cmd:"" help:"Show the windows of one shared budget, with its alerts."`
	Raise BudgetsRaiseCmd `cmd:"" help:"Raise a ceiling of a run, or of a shared budget that the run draws on."`
}

// BudgetsListCmd lists the newest windows.
type BudgetsListCmd struct {
	Remote
	Output
}

// Run implements the command.
func (c *BudgetsListCmd) Run(ctx context.Context, k *kong.Context) error {
	return showBudgets(ctx, k, c.Remote, c.Output, "")
}

// BudgetsShowCmd lists every window of one budget.
type BudgetsShowCmd struct {
	Remote
	Output
	Name string `arg:"" help:"Name of the budget."`
}

// Run implements the command.
func (c *BudgetsShowCmd) Run(ctx context.Context, k *kong.Context) error {
	return showBudgets(ctx, k, c.Remote, c.Output, c.Name)
}

func showBudgets(ctx context.Context, k *kong.Context, r Remote, o Output, name string) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	found, err := api.Budgets(ctx, name)
	if err != nil {
		return advise(err, "")
	}
	if o.JSON {
		return printJSON(k.Stdout, map[string]any{"items": append([]client.Budget{}, found...)})
	}
	if len(found) == 0 {
		_, err := fmt.Fprintln(k.Stdout, "no run has drawn on such a budget yet")
		return err
	}
	rows := make([][]string, 0, len(found))
	for _, b := range found {
		alerts := make([]string, 0, len(b.Alerts))
		for _, a := range b.Alerts {
			alerts = append(alerts, strconv.Itoa(a.Percent)+"%")
		}
		rows = append(rows, []string{clean(b.Name), clean(b.Window), clean(b.Unit), amount(b.Unit, b.Used), amount(b.Unit, b.Reserved), amount(b.Unit, b.Limit), strings.Join(alerts, " ")})
	}
	return table(k.Stdout, []string{"BUDGET", "WINDOW", "UNIT", "USED", "BOOKED", "LIMIT", "ALERTS"}, rows)
}

func amount(unit string, n int64) string { return spec.Amount(unit, n) }

// BudgetsRaiseCmd raises a ceiling.
type BudgetsRaiseCmd struct {
	Remote
	Output
	RunID  string `arg:"" name:"run" help:"Id of the run, or of one that draws on the shared budget."`
	Budget string `arg:"" help:"toolCalls, modelCalls, tokens, steps, cost or wallTime of the run, or pool:<name>."`
	To     string `arg:"" help:"The new ceiling: a number, dollars like 2.50 for money, a duration like 3h for wallTime."`
	Reason string `env:"-" placeholder:"TEXT" help:"Kept in the journal."`
}

// Run implements the command.
func (c *BudgetsRaiseCmd) Run(ctx context.Context, k *kong.Context) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	unit := c.Budget
	if name, shared := strings.CutPrefix(c.Budget, "pool:"); shared {
		found, err := api.Budgets(ctx, name)
		if err != nil {
			return advise(err, "")
		}
		if len(found) == 0 {
			return fmt.Errorf("no run has drawn on a budget %q; see: holdfast budgets list", name)
		}
		unit = found[0].Unit
	}
	to, err := ceilingOf(unit, c.To)
	if err != nil {
		return usage(err)
	}
	done, err := api.RaiseBudget(ctx, events.RunID(c.RunID), c.Budget, to, c.Reason)
	if err != nil {
		return advise(err, lookRuns)
	}
	if c.JSON {
		return printJSON(k.Stdout, commandResult{RunID: c.RunID, CommandID: done.CommandID})
	}
	_, err = fmt.Fprintf(k.Stdout, "raise of %s to %s accepted (command %s)\n", c.Budget, c.To, done.CommandID)
	return err
}

// ceilingOf reads a ceiling as people write it.
func ceilingOf(unit, text string) (int64, error) {
	switch unit {
	case "cost", "micro_usd":
		v, ok := spec.ParseMicroUSD(strings.TrimPrefix(text, "$"))
		if !ok || v == 0 {
			return 0, fmt.Errorf("%q is not an amount in dollars like 2.50", text)
		}
		return int64(v), nil
	case "wallTime":
		d, err := spec.ParseDuration(text)
		if err != nil || d.Seconds() < 1 {
			return 0, fmt.Errorf("%q is not a duration like 90m or 3h", text)
		}
		return int64(d.Seconds()), nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is not a whole number over 0", text)
	}
	return n, nil
}
