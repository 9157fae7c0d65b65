package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// TokensCmd groups tokens.
type TokensCmd struct {
	Remote

	Create TokensCreateCmd `cmd:"" help:"Make a token; it is shown once."`
	List   TokensListCmd   `cmd:"" help:"List tokens without their secrets."`
	Revoke TokensRevokeCmd `cmd:"" help:"End tokens; every door knows within two seconds."`
}

// Help implements kong.HelpProvider.
func (*TokensCmd) Help() string {
	return `Roles: viewer reads; operator also starts, cancels, pauses and resumes runs;
approver also decides approvals; admin does everything. A token belongs to one
namespace, and its name stands beside everything that is done with it.

  holdfast tokens create ann --role approver
  holdfast tokens create ben --role approver --group finance --group leads
  holdfast tokens create ci --role operator --expires-in 720h > ci.token
  holdfast tokens revoke 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a
` + exitHelp
}

// TokensCreateCmd makes a token.
type TokensCreateCmd struct {
	Output
	Name      string        `arg:"" help:"Who will act with it: a person or a program."`
	Role      string        `required:"" enum:"viewer,operator,approver,admin" env:"-" help:"viewer, operator, approver or admin."`
	Group     []string      `env:"-" placeholder:"GROUP" help:"A group that it is in, for rules about who may decide; may be repeated."`
	ExpiresIn time.Duration `env:"-" placeholder:"DURATION" help:"For how long it is valid, like 720h. Default: until it is revoked."`
}

// Help implements kong.HelpProvider.
func (*TokensCreateCmd) Help() string {
	return `Standard output gets the token and nothing else, so that it can be put in a file.

  (umask 077; holdfast tokens create ci --role operator > ci.token)
  holdfast runs list --token-file ci.token

--json prints {"id", "name", "role", "groups", "namespace", "token", "expires_at"}.`
}

// Run implements the command.
func (c *TokensCreateCmd) Run(ctx context.Context, k *kong.Context, group *TokensCmd) error {
	if c.ExpiresIn < 0 {
		return usage(fmt.Errorf("--expires-in is %s, it must lie ahead", c.ExpiresIn))
	}
	api, err := group.client()
	if err != nil {
		return err
	}
	req := client.TokenRequest{Name: c.Name, Role: c.Role, Groups: c.Group}
	if c.ExpiresIn > 0 {
		req.ExpiresAt = time.Now().Add(c.ExpiresIn).UTC()
	}
	t, err := api.CreateToken(ctx, req)
	if err != nil {
		return advise(err, "")
	}
	if c.JSON {
		return printJSON(k.Stdout, t)
	}
	fmt.Fprintf(k.Stderr, "token %s for %s (%s, namespace %s); it is not shown again:\n", t.ID, clean(t.Name), t.Role, t.Namespace)
	_, err = fmt.Fprintln(k.Stdout, t.Secret)
	return err
}

// TokensListCmd lists tokens.
type TokensListCmd struct {
	Output
	List
}

// Help implements kong.HelpProvider.
func (*TokensListCmd) Help() string {
	return `  holdfast tokens list

--json prints {"items": [{"id", "name", "role", "groups", "namespace", "created_at",
"created_by", "expires_at", "revoked_at", "revoked_by"}], "next_cursor"}.`
}

// Run implements the command.
func (c *TokensListCmd) Run(ctx context.Context, k *kong.Context, group *TokensCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	return printList(ctx, k, c.Output, c.List, api.Tokens, listing[client.Token]{
		none: `no tokens; make one with "holdfast tokens create NAME --role ROLE"`,
		head: []string{"TOKEN", "NAME", "ROLE", "GROUPS", "NAMESPACE", "CREATED", "BY", "VALID"},
		row: func(t client.Token) []string {
			return []string{t.ID, t.Name, t.Role, strings.Join(t.Groups, ", "), t.Namespace, stamp(t.CreatedAt), t.CreatedBy, tokenEnd(t)}
		},
	})
}

func tokenEnd(t client.Token) string {
	switch {
	case !t.RevokedAt.IsZero():
		return "revoked " + stamp(t.RevokedAt)
	case t.ExpiresAt.IsZero():
		return "until revoked"
	case t.ExpiresAt.Before(time.Now()):
		return "expired " + stamp(t.ExpiresAt)
	}
	return "until " + stamp(t.ExpiresAt)
}

// TokensRevokeCmd ends tokens.
type TokensRevokeCmd struct {
	Output
	ID []string `arg:"" help:"Ids of the tokens, from the list."`
}

// Help implements kong.HelpProvider.
func (*TokensRevokeCmd) Help() string {
	return `  holdfast tokens revoke 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a

--json prints one line per token, as in "tokens list --json".`
}

// Run implements the command.
func (c *TokensRevokeCmd) Run(ctx context.Context, k *kong.Context, group *TokensCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range c.ID {
		t, err := api.RevokeToken(ctx, id)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("token %s: %w", id, advise(err, "holdfast tokens list")))
		case c.JSON:
			if err := printJSONLine(k.Stdout, t); err != nil {
				return err
			}
		default:
			fmt.Fprintf(k.Stdout, "token %s of %s revoked\n", id, clean(t.Name))
		}
	}
	return errors.Join(errs...)
}
