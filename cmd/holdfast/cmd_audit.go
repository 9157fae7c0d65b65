package main

import (
	"context"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// AuditCmd groups the audit of what is done.
type AuditCmd struct {
	Remote

	List AuditListCmd `cmd:"" help:"List what people and programs did, newest first."`
}

// Help implements kong.HelpProvider.
func (*AuditCmd) Help() string {
	return `Every request that changes something is kept, at every service: who sent it, by
which token or session, to what, why, from where, and what came of it; also what
was refused for the sender's role. Bodies are not kept.

  holdfast audit list --actor maria@example.com --since 24h
  holdfast audit list --target 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a

The chained audit of approvals is "holdfast approvals audit".
` + exitHelp
}

// AuditListCmd lists acts.
type AuditListCmd struct {
	Output
	List
	Actor   string        `env:"-" placeholder:"NAME" help:"Of this token or person."`
	Action  string        `env:"-" placeholder:"TEXT" help:"With this in the action: cancel, apply, decide."`
	Target  string        `env:"-" placeholder:"TEXT" help:"With this in the target: an id."`
	Door    string        `env:"-" enum:"page,client,api,link,slack," default:"" help:"Through page, client, api, link or slack."`
	Outcome string        `env:"-" enum:"done,refused,failed,unknown," default:"" help:"done, refused, failed or unknown."`
	Since   time.Duration `env:"-" placeholder:"DURATION" help:"Not older than this: 24h."`
}

// Help implements kong.HelpProvider.
func (*AuditListCmd) Help() string {
	return `  holdfast audit list --outcome refused --since 24h

--json prints {"items": [{"id", "at", "service", "actor", "role", "token_id",
"session_id", "door", "action", "target", "reason", "request_id", "status",
"outcome", "ended_at"}], "next_cursor"}.`
}

// Run implements the command.
func (c *AuditListCmd) Run(ctx context.Context, k *kong.Context, group *AuditCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	f := client.AuditActFilter{Actor: c.Actor, Action: c.Action, Target: c.Target, Door: c.Door, Outcome: c.Outcome}
	if c.Since > 0 {
		f.Since = time.Now().Add(-c.Since)
	}
	read := func(ctx context.Context, p client.PageRequest) (client.Page[client.AuditAct], error) {
		return api.AuditActs(ctx, f, p)
	}
	return printList(ctx, k, c.Output, c.List, read, listing[client.AuditAct]{
		none: "nobody did anything that fits",
		head: []string{"WHEN", "WHO", "ROLE", "THROUGH", "OUTCOME", "ACTION", "TARGET", "REASON"},
		row: func(a client.AuditAct) []string {
			return []string{stamp(a.At), a.Actor, a.Role, a.Door, a.Outcome, a.Action, a.Target, a.Reason}
		},
	})
}
