package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// SessionsCmd groups sessions.
type SessionsCmd struct {
	Remote

	List   SessionsListCmd   `cmd:"" help:"List who is signed in with a browser and may act in the namespace."`
	Revoke SessionsRevokeCmd `cmd:"" help:"End sessions; every door knows within two seconds."`
}

// Help implements kong.HelpProvider.
func (*SessionsCmd) Help() string {
	return `People sign in at an OpenID provider, see --oidc-issuer of "holdfast serve", or
with a token. Who still is in a group that has access may sign in anew after a
session was ended: take the group away first.

  holdfast sessions list
  holdfast sessions revoke 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a
` + exitHelp
}

// SessionsListCmd lists sessions.
type SessionsListCmd struct {
	Output
	List
}

// Help implements kong.HelpProvider.
func (*SessionsListCmd) Help() string {
	return `  holdfast sessions list

--json prints {"items": [{"id", "name", "namespace", "role", "grants", "groups",
"token_id", "issuer", "subject", "user_agent", "created_at", "last_seen_at",
"ends_at", "expires_at"}], "next_cursor"}.`
}

// Run implements the command.
func (c *SessionsListCmd) Run(ctx context.Context, k *kong.Context, group *SessionsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	return printList(ctx, k, c.Output, c.List, api.Sessions, listing[client.Session]{
		none: "nobody is signed in with a browser",
		head: []string{"SESSION", "NAME", "ROLE", "NAMESPACE", "WITH", "SIGNED IN", "LAST USED", "ENDS"},
		row: func(s client.Session) []string {
			with := s.Issuer
			if s.TokenID != "" {
				with = "token " + s.TokenID
			}
			return []string{s.ID, s.Name, s.Role, s.Namespace, with, stamp(s.CreatedAt), stamp(s.LastSeenAt), stamp(s.EndsAt)}
		},
	})
}

// SessionsRevokeCmd ends sessions.
type SessionsRevokeCmd struct {
	Output
	ID []string `arg:"" help:"Ids of the sessions, from the list."`
}

// Help implements kong.HelpProvider.
func (*SessionsRevokeCmd) Help() string {
	return `  holdfast sessions revoke 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a

--json prints one line per session, as in "sessions list --json", with "revoked_at"
and "revoked_by".`
}

// Run implements the command.
func (c *SessionsRevokeCmd) Run(ctx context.Context, k *kong.Context, group *SessionsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range c.ID {
		s, err := api.RevokeSession(ctx, id)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("session %s: %w", id, advise(err, "holdfast sessions list")))
		case c.JSON:
			if err := printJSONLine(k.Stdout, s); err != nil {
				return err
			}
		default:
			fmt.Fprintf(k.Stdout, "session %s of %s ended\n", id, clean(s.Name))
		}
	}
	return errors.Join(errs...)
}
