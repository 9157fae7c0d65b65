package postgres

import (
	"embed"
	"fmt"
	"io/fs"

	"github.com/holdfast-run/holdfast/internal/pg"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations creates the schema trigger.
var Migrations = pg.Schema{Name: "trigger", FS: migrations()}

func migrations() fs.FS {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		panic(fmt.Sprintf("embedded migrations: %v", err))
	}
	return sub
}
