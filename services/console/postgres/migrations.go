// Package postgres keeps the console's rows and reads the views of the other
// services.
package postgres

import (
	"embed"
	"io/fs"

	"github.com/holdfast-run/holdfast/internal/pg"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations holds the schemas catalog and console.
var Migrations = pg.Schema{Name: "console", FS: migrations()}

func migrations() fs.FS {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		panic(err) // the path is a constant
	}
	return sub
}
