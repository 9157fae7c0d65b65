package postgres

import (
	"embed"
	"io/fs"

	"github.com/holdfast-run/holdfast/internal/pg"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations is the schema tools.
var Migrations = pg.Schema{Name: "tools", FS: migrations()}

func migrations() fs.FS {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		panic(err) // the path is a constant
	}
	return sub
}
