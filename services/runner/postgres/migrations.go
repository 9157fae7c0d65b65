package postgres

import (
	"embed"
	"io/fs"

	"github.com/holdfast-run/holdfast/internal/pg"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations is the runner's schema.
var Migrations = pg.Schema{Name: "runner", FS: must(fs.Sub(migrations, "migrations"))}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the directory is embedded: only a typo gets here
	}
	return v
}
