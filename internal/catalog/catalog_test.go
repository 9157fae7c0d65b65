package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-run/holdfast/internal/catalog"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

func store(t *testing.T, db *pgtest.DB, namespace, text string) spec.Document {
	t.Helper()
	docs, err := spec.Parse("t.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	d := docs[0]
	for _, sql := range []string{
		`INSERT INTO catalog.versions (namespace, kind, name, digest, body, created_by) VALUES ($1, $2, $3, $4, $5::json, 't') ON CONFLICT DO NOTHING`,
	} {
		if _, err := db.Pool.Exec(t.Context(), sql, namespace, d.Kind, d.Name, string(d.Digest), string(d.Body)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Pool.Exec(t.Context(), `INSERT INTO catalog.current (namespace, kind, name, digest, version, updated_by) VALUES ($1, $2, $3, $4, 1, 't')
		ON CONFLICT (namespace, kind, name) DO UPDATE SET digest = excluded.digest, version = catalog.current.version + 1`, namespace, d.Kind, d.Name, string(d.Digest)); err != nil {
		t.Fatal(err)
	}
	return d
}

func agent(instructions string) string {
	return fmt.Sprintf("apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: clerk}\nspec: {model: m, instructions: %s}\n", instructions)
}

func TestCatalog_NamesMoveAndVersionsStay(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	c := catalog.New(db.Open(t, "holdfast_runner"))
	old := store(t, db, "default", agent("one"))
	fresh := store(t, db, "default", agent("two"))
	store(t, db, "other", agent("three"))

	v, err := c.Current(t.Context(), "default", spec.KindAgent, "clerk")
	if err != nil || v.Digest != fresh.Digest {
		t.Errorf("the name means %s (%v), want %s", v.Digest, err, fresh.Digest)
	}
	for range 2 { // the second is remembered
		a, err := c.Agent(t.Context(), "default", old.Digest)
		if err != nil || a.Instructions != "one" {
			t.Errorf("the old version is gone: %+v, %v", a, err)
		}
	}
	if _, err := c.Agent(t.Context(), "other", old.Digest); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("another namespace's version: %v, want ErrNotFound", err)
	}
	if _, err := c.Current(t.Context(), "default", spec.KindAgent, "nobody"); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("unknown name: %v, want ErrNotFound", err)
	}
	all, err := c.List(t.Context(), "", spec.KindAgent)
	if err != nil || len(all) != 2 || all[0].Namespace != "default" || all[1].Namespace != "other" {
		t.Errorf("list %+v (%v)", all, err)
	}
	one, err := c.List(t.Context(), "other", spec.KindAgent)
	if err != nil || len(one) != 1 {
		t.Errorf("list of one namespace %+v (%v)", one, err)
	}
}

func TestCatalog_DamagedBodyIsRefused(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	c := catalog.New(db.Open(t, "holdfast_tools"))
	d := store(t, db, "default", agent("one"))
	if _, err := db.Pool.Exec(context.Background(), `UPDATE catalog.versions SET body = $1::json`, `{"kind":"Agent"}`); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Agent(t.Context(), "default", d.Digest); !errors.Is(err, catalog.ErrDamaged) {
		t.Errorf("%v, want ErrDamaged", err)
	}
	if _, err := c.Tool(t.Context(), "default", events.DigestOf([]byte("x"))); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("%v, want ErrNotFound", err)
	}
}
