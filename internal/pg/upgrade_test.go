package pg_test

import (
	"io/fs"
	"strconv"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
)

// shape lists what a database has: columns, view definitions, indexes, grants.
const shape = `
SELECT coalesce(string_agg(line, E'\n' ORDER BY line), '') FROM (
	SELECT format('%s.%s %s %s %s %s %s', table_schema, table_name, ordinal_position, column_name, data_type, is_nullable, column_default) AS line
	  FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name) WHERE t.table_type = 'VIEW' AND table_schema IN (SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema|public)')
	UNION ALL
	SELECT format('%s.%s %s %s %s %s', table_schema, table_name, column_name, data_type, is_nullable, column_default)
	  FROM information_schema.columns WHERE table_schema !~ '^(pg_|information_schema|public)'
	UNION ALL SELECT format('view %s.%s %s', schemaname, viewname, definition) FROM pg_views WHERE schemaname !~ '^(pg_|information_schema|public)'
	UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname !~ '^(pg_|public)'
	UNION ALL SELECT format('%s %s.%s %s', grantee, table_schema, table_name, privilege_type) FROM information_schema.role_table_grants
	           WHERE table_schema !~ '^(pg_|information_schema|public)' AND grantee LIKE 'holdfast\_%'
) x`

// versions lists what each schema has recorded, and when.
const versions = `
SELECT string_agg(x, E'\n') FROM (SELECT (xpath('/row/x/text()', query_to_xml(format(
	'SELECT string_agg(version_id || '' '' || id || '' '' || tstamp, '', '' ORDER BY id) AS x FROM public.%I', tablename), false, true, '')))[1]::text AS x
  FROM pg_tables WHERE schemaname = 'public' AND tablename LIKE 'goose\_%' ORDER BY tablename) t`

// Changes that were made at the same time reach a database in any order: one that
// has the later ones and not those between them gets these, ends like a new
// database, and a repeat changes nothing.
func TestMigrate_FromAnOlderState(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	all, err := pgtest.Schemas()
	if err != nil {
		t.Fatal(err)
	}
	// Of the services that have no such late numbers only the first file is there.
	left := func(service string, n int) bool {
		if service == "runner" || service == "tools" {
			return n >= 9 && n <= 13
		}
		return n > 1
	}
	u := bare(t, db, "old")
	var old []pg.Schema
	missing := 0
	for _, s := range all {
		kept := fstest.MapFS{}
		files, err := fs.Glob(s.FS, "*.sql")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			n, err := strconv.Atoi(f[:4])
			if err != nil {
				t.Fatal(err)
			}
			if left(s.Name, n) {
				missing++
				continue
			}
			data, err := fs.ReadFile(s.FS, f)
			if err != nil {
				t.Fatal(err)
			}
			kept[f] = &fstest.MapFile{Data: data}
		}
		old = append(old, pg.Schema{Name: s.Name, FS: kept})
	}
	if missing < 10 {
		t.Fatalf("%d migrations are left out: the test shows little", missing)
	}
	if err := pg.Migrate(t.Context(), u, old); err != nil {
		t.Fatal(err)
	}
	pool := open(t, u)
	if text(t, pool, shape) == text(t, db.Pool, shape) {
		t.Error("nothing was missing")
	}
	if err := pg.Migrate(t.Context(), u, all); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text(t, db.Pool, shape), text(t, pool, shape)); diff != "" {
		t.Errorf("a new database and an old one that was migrated differ (-new +old):\n%s", diff)
	}
	before := text(t, pool, versions)
	if err := pg.Migrate(t.Context(), u, all); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, text(t, pool, versions)); diff != "" || len(before) < 100 {
		t.Errorf("a repeat recorded something:\n%s\n%s", before, diff)
	}
}
