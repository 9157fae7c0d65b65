package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/pg"
)

// MigrateCmd migrates the database.
type MigrateCmd struct {
	LogSettings
	DatabaseSettings

	AdminToken     config.Secret `group:"database" placeholder:"TOKEN" help:"Also store this token (hf_ and at least 20 characters) with the role admin, if it is not there."`
	AdminTokenFile string        `group:"database" placeholder:"FILE" help:"File that holds it."`
	AdminNamespace string        `group:"database" default:"default" placeholder:"NAME" help:"Namespace that it administrates (${default})."`
	Timeout        time.Duration `default:"5m" help:"Give up after this time (${default})."`
}

// Help implements kong.HelpProvider.
func (*MigrateCmd) Help() string {
	return `Creates or updates every service's schema and role. It may run again, and at the
same time as another one; services of the release before go on working meanwhile.
The URL must reach Postgres directly, as a user that may create roles and schemas.

  holdfast migrate --database-url postgres://postgres@db/holdfast
  printf 'hf_%s' "$(openssl rand -hex 24)" > admin-token
  holdfast migrate --database-url postgres://postgres@db/holdfast --admin-token-file admin-token

The second form makes the first token of a new installation, or with
--admin-namespace NAME the first one of another namespace; further ones come from
"holdfast tokens create", each for the namespace of who asks.`
}

// Run implements the command.
func (c *MigrateCmd) Run(ctx context.Context, k *kong.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	url, err := c.url()
	if err != nil {
		return usage(err)
	}
	if url == "" {
		return usage(errors.New("no database: set --database-url (HOLDFAST_DATABASE_URL)"))
	}
	if c.AdminTokenFile != "" {
		if c.AdminToken, err = config.ReadSecret(c.AdminTokenFile); err != nil {
			return usage(err)
		}
	}
	if !authn.ValidNamespace(c.AdminNamespace) {
		return usage(fmt.Errorf("--admin-namespace: %q is not a namespace: use a-z, 0-9 and -, at most 63", c.AdminNamespace))
	}
	began := time.Now()
	if err := pg.Migrate(ctx, url, schemas()); err != nil {
		return err
	}
	fmt.Fprintf(k.Stdout, "database is at version %s (%s)\n", buildVersion(), time.Since(began).Round(time.Millisecond))
	if c.AdminToken == "" {
		return nil
	}
	if err := storeAdminToken(ctx, url, c.AdminToken, c.AdminNamespace); err != nil {
		return err
	}
	_, err = fmt.Fprintln(k.Stdout, "the admin token is stored")
	return err
}

// minAdminToken keeps guessable secrets out.
const minAdminToken = 20

const insertAdminToken = `
INSERT INTO catalog.tokens (id, hash, namespace, role, name, created_by)
VALUES ($1, $2, $3, 'admin', 'admin', 'migrate')
ON CONFLICT DO NOTHING`

// storeAdminToken stores the first token of a namespace. A token that is
// there already, even a revoked one, stays as it is.
func storeAdminToken(ctx context.Context, url, token config.Secret, namespace string) error {
	text := token.Reveal()
	if len(text) < minAdminToken || text[:len(authn.TokenPrefix)] != authn.TokenPrefix {
		return usage(fmt.Errorf("the admin token must begin with %s and have at least %d characters", authn.TokenPrefix, minAdminToken))
	}
	conn, err := pgx.Connect(ctx, url.Reveal())
	if err != nil {
		return fmt.Errorf("store admin token: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	hash := authn.HashToken(text)
	if _, err := conn.Exec(ctx, insertAdminToken, fmt.Sprintf("adm%x", hash[:8]), hash[:], namespace); err != nil {
		return fmt.Errorf("store admin token: %w", err)
	}
	var has string
	if err := conn.QueryRow(ctx, "SELECT namespace FROM catalog.v_tokens WHERE hash = $1", hash[:]).Scan(&has); err != nil {
		return fmt.Errorf("store admin token: %w", err)
	}
	if has != namespace {
		return usage(fmt.Errorf("this token is of the namespace %s already; a token is for one namespace, make another one for %s", has, namespace))
	}
	return nil
}
