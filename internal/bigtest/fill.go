// Package bigtest fills a database with what long use leaves behind: runs in every
// state with their journals, calls, effects, questions, deliveries, fires and notices.
// The database makes it all itself, about 100,000 rows of journals a second.
package bigtest

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

//go:embed fill.sql
var statements string

// Size is how much there is to be. At least 200 runs make one of each kind.
type Size struct {
	Runs int
	Rows int // of journals, about
	Long int // of them, in the longest one
}

// Fill fills a migrated database that is empty, connected as its owner.
func Fill(t testing.TB, conn *pgx.Conn, size Size) {
	t.Helper()
	if err := fill(t.Context(), conn, size); err != nil {
		t.Fatal(err)
	}
}

func fill(ctx context.Context, conn *pgx.Conn, size Size) error {
	sized := strings.NewReplacer("{{runs}}", strconv.Itoa(size.Runs), "{{rows}}", strconv.Itoa(size.Rows), "{{long}}", strconv.Itoa(size.Long)).Replace(statements)
	// Triggers look after what comes row by row; here all of it fits from the start.
	all := append([]string{"SET session_replication_role = replica", "SET work_mem = '256MB'", "SET maintenance_work_mem = '512MB'"}, strings.Split(sized, "\n--\n")...)
	for _, sql := range append(all, "ANALYZE", "RESET session_replication_role") {
		if _, err := conn.Exec(ctx, sql); err != nil {
			first, _, _ := strings.Cut(strings.TrimSpace(sql), "\n")
			return fmt.Errorf("fill the database: %.120s: %w", first, err)
		}
	}
	return nil
}
