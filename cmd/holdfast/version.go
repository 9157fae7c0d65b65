package main

import (
	"fmt"
	"runtime"

	"github.com/alecthomas/kong"
)

// VersionCmd prints what this binary is.
type VersionCmd struct{}

// Run implements the command.
func (*VersionCmd) Run(k *kong.Context) error {
	_, err := fmt.Fprintf(k.Stdout, "holdfast %s (%s, %s/%s)\n", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
