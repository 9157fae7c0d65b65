// Package postgres keeps the console's rows and reads the views of the other
// services.
package postgres

import (
	"embed"

	"github.com/holdfast-run/holdfast/internal/pg"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations holds the schemas catalog and console.
var Migrations = pg.NewSchema("console", files)
