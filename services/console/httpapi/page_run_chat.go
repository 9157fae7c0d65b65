package httpapi

import (
	"context"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/console"
)

// chatView is what was said in the rows that the page shows.
type chatView struct {
	Show         bool
	Entries      []console.ChatEntry
	First        string // message to the model, when its row is among them
	FirstCut     bool
	Instructions string
	// Tokens is the run whose answer appears while it is written.
	Tokens events.RunID
}

// firstShown is how much of a run's first message its page shows.
const firstShown = 4000

func (a *api) chatOf(ctx context.Context, p *runPage, rows []events.RunEvent) {
	run := p.Run
	v := &p.Chat
	if v.Show = run.Kind == events.KindAgent; !v.Show {
		return
	}
	v.Entries = console.ChatOf(rows)
	if !events.Ended(run.Status) && p.Around == 0 {
		v.Tokens = run.ID
	}
	if p.First > 1 && run.Taken() {
		return
	}
	first := string(run.Input)
	if versions, err := a.console.Versions(ctx, run.Namespace, []events.Ref{{Kind: run.Kind, Digest: run.Digest}}); err == nil && len(versions) > 0 {
		if agent, err := spec.DecodeAgent(versions[0].Body); err == nil {
			v.Instructions = clipText(agent.Instructions, firstShown)
			if text, err := spec.FirstMessage(agent, run.Input); err == nil {
				first = text
			}
		}
	}
	v.First = clipText(first, firstShown)
	v.FirstCut = v.First != first
}
