package blob_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/blob"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/events"
)

var roles = []string{"holdfast_trigger", "holdfast_runner", "holdfast_tools", "holdfast_approvals", "holdfast_console"}

// Whoever writes, everybody reads the same bytes; nobody changes or deletes them.
func TestBlob_EveryRoleInsertsAndReads(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pools := map[string]*pgxpool.Pool{}
	for _, role := range roles {
		pools[role] = db.Open(t, role)
	}
	for i, role := range roles {
		data := append(bytes.Repeat([]byte{0, 0xff, '"', '\n'}, 50_000), byte(i))
		ref := blob.Ref(events.DeliveryScope("d1"), data)
		for range 2 {
			if err := blob.Put(t.Context(), pools[role], ref, data); err != nil {
				t.Fatalf("%s: %v", role, err)
			}
		}
		for _, reader := range roles {
			got, err := blob.Get(t.Context(), pools[reader], ref)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s wrote %d bytes, %s reads %d, %v", role, len(data), reader, len(got), err)
			}
		}
		for _, sql := range []string{`UPDATE blob.blobs SET data = ''`, `DELETE FROM blob.blobs`} {
			if _, err := pools[role].Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "permission denied") {
				t.Errorf("%s as %s: %v", sql, role, err)
			}
		}
	}
	if n := count(t, db); n != len(roles) {
		t.Errorf("%d rows, want %d", n, len(roles))
	}
}

func TestBlob_GoneOrDamaged(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ref := blob.Ref(events.RunScope("r1"), []byte("text"))
	if _, err := blob.Get(t.Context(), db.Pool, ref); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("absent: %v", err)
	}
	if err := blob.Put(t.Context(), db.Pool, ref, []byte("text")); err != nil {
		t.Fatal(err)
	}
	other := ref
	other.Scope = events.RunScope("r2")
	if _, err := blob.Get(t.Context(), db.Pool, other); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("of another scope: %v", err)
	}
	if _, err := db.Pool.Exec(t.Context(), `UPDATE blob.blobs SET data = 'txet'`); err != nil {
		t.Fatal(err)
	}
	if _, err := blob.Get(t.Context(), db.Pool, ref); err == nil || errors.Is(err, blob.ErrNotFound) {
		t.Errorf("damaged: %v", err)
	}
}

// What belongs to a row goes with it, and with the transaction that is undone.
func TestBlob_GoesWithItsScope(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	_, err := db.Pool.Exec(t.Context(), `
		CREATE SCHEMA owner;
		CREATE TABLE owner.things (id text PRIMARY KEY);
		CREATE TRIGGER forget AFTER DELETE ON owner.things REFERENCING OLD TABLE AS gone
			FOR EACH STATEMENT EXECUTE FUNCTION blob.forget('run', 'id');
		GRANT USAGE ON SCHEMA owner TO holdfast_tools;
		GRANT SELECT, DELETE ON owner.things TO holdfast_tools;
		INSERT INTO owner.things SELECT 'r' || n FROM generate_series(1, 3) n`, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []events.RunID{"r1", "r2", "r3"} {
		for _, text := range []string{"a", "b"} {
			if err := blob.Put(t.Context(), db.Pool, blob.Ref(events.RunScope(id), []byte(text)), []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	pool := db.Open(t, "holdfast_tools")
	undone := errors.New("undone")
	err = pg.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `DELETE FROM owner.things`); err != nil {
			return err
		}
		return undone
	})
	if !errors.Is(err, undone) || count(t, db) != 6 {
		t.Errorf("%v; %d rows after the undone delete, want 6", err, count(t, db))
	}
	if _, err := pool.Exec(t.Context(), `DELETE FROM owner.things WHERE id <> 'r2'`); err != nil {
		t.Fatal(err)
	}
	if n := count(t, db); n != 2 {
		t.Errorf("%d rows, want the two of r2", n)
	}
}

func count(t *testing.T, db *pgtest.DB) (n int) {
	t.Helper()
	if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM blob.blobs`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
