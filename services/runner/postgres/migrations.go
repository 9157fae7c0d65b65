package postgres

import (
	"embed"

	"github.com/holdfast-run/holdfast/internal/pg"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations is the runner's schema.
var Migrations = pg.NewSchema("runner", migrations)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the directory is embedded: only a typo gets here
	}
	return v
}
