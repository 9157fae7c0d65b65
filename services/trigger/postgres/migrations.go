package postgres

import (
	"embed"

	"github.com/holdfast-run/holdfast/internal/pg"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations creates the schema trigger.
var Migrations = pg.NewSchema("trigger", files)
