package pg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"
)

// PrepareAll asks Postgres to parse every query against the schema as it is and
// joins what it refuses, each under its name. A service's TestQueriesPrepare
// hands it all of the service's queries. Parsing checks names and types; whether
// a role may run a query shows only when it runs.
func PrepareAll(ctx context.Context, pool *pgxpool.Pool, queries map[string]string) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(queries)) {
		if _, err := conn.Conn().Prepare(ctx, "", queries[name]); err != nil {
			errs = append(errs, fmt.Errorf("prepare %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
