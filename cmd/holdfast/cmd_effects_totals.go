package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// EffectsTotalsCmd counts the ledger.
type EffectsTotalsCmd struct {
	Output
}

// Help implements kong.HelpProvider.
func (*EffectsTotalsCmd) Help() string {
	return `  holdfast effects totals

--json prints {"in_doubt", "under_way", "held", "may_have_happened_twice"} as of
now, and {"happened", "did_not_happen", "duplicates_prevented",
"mismatches_refused"} of the last 24 hours.`
}

// Run implements the command.
func (c *EffectsTotalsCmd) Run(ctx context.Context, k *kong.Context, group *EffectsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	t, err := api.EffectTotals(ctx)
	if err != nil {
		return advise(err, "")
	}
	if c.JSON {
		return printJSON(k.Stdout, t)
	}
	return details(k.Stdout,
		"in doubt", fmt.Sprint(t.InDoubt), "under way", fmt.Sprint(t.UnderWay), "held by a stop", fmt.Sprint(t.Held), "may be twice", fmt.Sprint(t.Twice),
		"happened, 24 h", fmt.Sprint(t.Happened), "did not, 24 h", fmt.Sprint(t.Not), "duplicates prevented, 24 h", fmt.Sprint(t.Prevented),
		"other arguments, refused, 24 h", fmt.Sprint(t.Refused))
}

// sharedCalls is a line for each call that shares an effect.
func sharedCalls(e client.Effect) string {
	var b strings.Builder
	for _, c := range e.Calls {
		fmt.Fprintf(&b, "%s of %s: %s", c.CallID, joinWords(clean(c.Run), string(c.RunID), parenthesis(c.RunStatus)), c.Status)
		if c.Replayed {
			b.WriteString(", from the ledger")
		}
		if c.YesBy != "" {
			fmt.Fprintf(&b, ", approved by %s", clean(c.YesBy))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func verdictLines(e client.Effect) string {
	var b strings.Builder
	for _, v := range e.Verdicts {
		fmt.Fprintf(&b, "%s %s: %s", stamp(v.At), clean(v.By), v.Verdict)
		if !v.Applied {
			b.WriteString(" (too late, not used)")
		}
		if v.Comment != "" {
			fmt.Fprintf(&b, ": %s", clean(v.Comment))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
