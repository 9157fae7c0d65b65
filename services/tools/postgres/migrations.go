package postgres

import (
	"embed"

	"github.com/holdfast-run/holdfast/internal/pg"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations is the schema tools.
var Migrations = pg.NewSchema("tools", files)
