package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// ConcurrencyCmd reads concurrency keys.
type ConcurrencyCmd struct {
	List ConcurrencyListCmd `cmd:"" help:"List the keys under which runs are open, with who holds them and how many wait."`
}

// ConcurrencyListCmd lists the keys.
type ConcurrencyListCmd struct {
	Remote
	Output
	List
	Name string `arg:"" optional:"" help:"Only keys of this agent or flow."`
}

// Run implements the command.
func (c *ConcurrencyListCmd) Run(ctx context.Context, k *kong.Context) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	read := func(ctx context.Context, p client.PageRequest) (client.Page[client.ConcurrencyKey], error) {
		return api.Concurrency(ctx, c.Name, p)
	}
	return printList(ctx, k, c.Output, c.List, read, listing[client.ConcurrencyKey]{
		none: "no run is open under a concurrency key",
		head: []string{"KEY", "OF", "MAX", "HELD", "WAITING", "HELD BY"},
		row: func(x client.ConcurrencyKey) []string {
			holder := ""
			if len(x.Holders) > 0 {
				holder = string(x.Holders[0])
			}
			if n := len(x.Holders); n > 1 {
				holder += fmt.Sprintf(" and %d more", x.Held-1)
			}
			return []string{clean(x.Key), clean(x.Name), strconv.FormatInt(x.Max, 10), strconv.FormatInt(x.Held, 10), strconv.FormatInt(x.Waiting, 10), holder}
		},
	})
}
