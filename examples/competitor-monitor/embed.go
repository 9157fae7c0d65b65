// Package competitormonitor holds the files of the example, so that the demo
// runs from the binary alone.
package competitormonitor

import "embed"

// Files are the example's definitions and its sample delivery.
//
//go:embed *.yaml *.json *.md
var Files embed.FS
