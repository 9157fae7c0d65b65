package main

import (
	"context"
	"fmt"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// EffectsCmd groups the ledger.
type EffectsCmd struct {
	Remote

	List    EffectsListCmd    `cmd:"" help:"List what tools did to the outside world."`
	Show    EffectsShowCmd    `cmd:"" help:"Show one row of the ledger."`
	Totals  EffectsTotalsCmd  `cmd:"" help:"Count the ledger: in doubt, under way, kept from happening twice."`
	Resolve EffectsResolveCmd `cmd:"" help:"Say what became of an effect in doubt."`
}

// Help implements kong.HelpProvider.
func (*EffectsCmd) Help() string {
	return `Each effect has a key and happens at most once per key. When nobody knows whether
it happened, its state is unknown, and it is not repeated on suspicion.

  holdfast effects list --state in_doubt
  holdfast effects show EFFECT
  holdfast effects resolve EFFECT happened --result '{"price_id":"p-17"}'
` + exitHelp
}

const lookEffects = "holdfast effects list"

// EffectsListCmd lists the ledger.
type EffectsListCmd struct {
	Output
	List
	State string `env:"-" placeholder:"STATE" help:"Only in this state: intent, held, awaiting, succeeded, failed, unknown, in_doubt (unknown, and nobody has settled it) or expired."`
	Tool  string `env:"-" placeholder:"NAME" help:"Only of this tool; program/NAME for what programs do."`
	OfRun string `name:"run" env:"-" placeholder:"RUN" help:"What this run changed, and all runs that it started."`
	Key   string `env:"-" placeholder:"KEY" help:"Of this whole key."`
	Text  string `env:"-" placeholder:"TEXT" help:"With this in the key, the arguments, the result or the error; looks through 10,000 effects."`
	Since string `env:"-" placeholder:"TIME" help:"Begun since: 2h (ago), 2026-11-29 or 2026-11-29T02:00:00Z."`
	Until string `env:"-" placeholder:"TIME" help:"Begun before."`
	Twice bool   `env:"-" help:"Only what may have happened twice."`
}

// Help implements kong.HelpProvider.
func (*EffectsListCmd) Help() string {
	return `  holdfast effects list --state unknown
  holdfast effects list --state held
  holdfast effects list --run RUN
  holdfast effects list --text BOARD-OAK-40 --since 24h
  holdfast effects list --tool propose_price --limit 500 --json

--json prints {"items": [...], "next_cursor"}, each as "effects show --json".`
}

// Run implements the command.
func (c *EffectsListCmd) Run(ctx context.Context, k *kong.Context, group *EffectsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	f := client.EffectFilter{State: c.State, Tool: c.Tool, Run: events.RunID(c.OfRun), Key: c.Key, Text: c.Text, Twice: c.Twice}
	if f.Since, err = pastTime("--since", c.Since, time.Now()); err != nil {
		return err
	}
	if f.Until, err = pastTime("--until", c.Until, time.Now()); err != nil {
		return err
	}
	read := func(ctx context.Context, p client.PageRequest) (client.Page[client.Effect], error) {
		return api.Effects(ctx, f, p)
	}
	return printList(ctx, k, c.Output, c.List, read, listing[client.Effect]{
		none: "no effects",
		head: []string{"EFFECT", "TOOL", "STATE", "KEY", "RUN", "UPDATED"},
		row: func(e client.Effect) []string {
			return []string{e.EffectID, e.Tool, effectState(e), cut(e.Key, 60), string(e.RunID), stamp(e.UpdatedAt)}
		},
	})
}

// EffectsShowCmd shows one row of the ledger.
type EffectsShowCmd struct {
	Output
	ID string `arg:"" help:"Id of the effect."`
}

// Help implements kong.HelpProvider.
func (*EffectsShowCmd) Help() string {
	return `  holdfast effects show EFFECT

--json prints {"effect_id", "tool", "key", "state", "epoch", "run_id", "call_id",
"args", "result", "error", "receipts", "calls", "verdicts", ...}.`
}

// Run implements the command.
func (c *EffectsShowCmd) Run(ctx context.Context, k *kong.Context, group *EffectsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	e, err := api.Effect(ctx, c.ID)
	if err != nil {
		return advise(err, lookEffects)
	}
	if c.JSON {
		return printJSON(k.Stdout, e)
	}
	return showEffect(k, e)
}

// effectState is the state for people: a record that cannot be understood is
// neither of the states that it claims.
func effectState(e client.Effect) string {
	if e.Damaged != "" {
		return "damaged"
	}
	return e.State
}

func showEffect(k *kong.Context, e client.Effect) error {
	failed := ""
	if e.Error != nil {
		failed = e.Error.Code + ": " + e.Error.Message
	}
	if err := details(k.Stdout,
		"effect", e.EffectID, "tool", e.Tool, "state", effectState(e), "damage", e.Damaged, "key", e.Key, "epoch", fmt.Sprint(e.Epoch),
		"in doubt", e.InDoubt, "on doubt", e.OnDoubt, "held by", e.HeldBy, "settled by", e.SettledBy, "run", string(e.RunID), "call", string(e.CallID), "worker", e.Worker,
		"attempts", fmt.Sprint(e.Attempts), "begun", stamp(e.CreatedAt), "acted", stamp(e.ActedAt), "updated", stamp(e.UpdatedAt),
		"arguments", pretty(e.Args), "result", pretty(e.Result), "error", failed, "calls", sharedCalls(e), "said", verdictLines(e), "receipts", pretty(e.Receipts),
	); err != nil {
		return err
	}
	if !e.ReplyUntil.IsZero() {
		_, err := fmt.Fprintf(k.Stdout, "\nwaiting for callback until %s; after that it is in doubt\n", stamp(e.ReplyUntil))
		return err
	}
	if e.State != events.CallUnknown {
		return nil
	}
	if e.InDoubt == spec.PolicyProbe && e.SettledBy == "" {
		_, err := fmt.Fprintf(k.Stdout, "\nlooking whether it happened, next at %s; who knows already says so: holdfast effects resolve %s happened|not_happened|give_up\n", stamp(e.NextTry), e.EffectID)
		return err
	}
	_, err := fmt.Fprintf(k.Stdout, "\nlook at the other side, then: holdfast effects resolve %s happened|not_happened|give_up\n", e.EffectID)
	return err
}

// EffectsResolveCmd settles a doubt.
type EffectsResolveCmd struct {
	Output
	ID      string `arg:"" help:"Id of the effect."`
	Verdict string `arg:"" enum:"happened,not_happened,give_up" help:"happened: record it as done. not_happened: act now. give_up: leave it unknown and tell the agent."`
	Result  string `env:"-" placeholder:"JSON|@FILE" help:"With happened: what the call returned."`
	Comment string `env:"-" placeholder:"TEXT" help:"Kept in the ledger."`
}

// Help implements kong.HelpProvider.
func (*EffectsResolveCmd) Help() string {
	return `Look at the other side first: "not_happened" makes the call run. Needs the role
admin; an approver answers the same doubt with "holdfast approvals settle".

  holdfast effects resolve EFFECT happened --result '{"price_id":"p-17"}' --comment "seen in the shop"

--json prints the effect as "effects show --json".`
}

// Run implements the command.
func (c *EffectsResolveCmd) Run(ctx context.Context, k *kong.Context, group *EffectsCmd) error {
	result, err := readJSON("--result", c.Result)
	if err != nil {
		return err
	}
	api, err := group.client()
	if err != nil {
		return err
	}
	e, err := api.Resolve(ctx, c.ID, client.Resolution{Verdict: c.Verdict, Result: result, Comment: c.Comment})
	if err != nil {
		return advise(err, lookEffects)
	}
	if c.JSON {
		return printJSON(k.Stdout, e)
	}
	_, err = fmt.Fprintf(k.Stdout, "effect %s resolved as %s; its state is %s\n", c.ID, c.Verdict, clean(e.State))
	return err
}
