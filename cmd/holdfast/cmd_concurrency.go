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
	Name string `arg:"" optional:"" help:"Only keys of this agent or flow."`
}

// Run implements the command.
func (c *ConcurrencyListCmd) Run(ctx context.Context, k *kong.Context) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	found, err := api.Concurrency(ctx, c.Name)
	if err != nil {
		return advise(err, "")
	}
	if c.JSON {
		return printJSON(k.Stdout, map[string]any{"items": append([]client.ConcurrencyKey{}, found...)})
	}
	if len(found) == 0 {
		_, err := fmt.Fprintln(k.Stdout, "no run is open under a concurrency key")
		return err
	}
	rows := make([][]string, 0, len(found))
	for _, x := range found {
		holder := ""
		if len(x.Holders) > 0 {
			holder = string(x.Holders[0])
		}
		if n := len(x.Holders); n > 1 {
			holder += fmt.Sprintf(" and %d more", x.Held-1)
		}
		rows = append(rows, []string{clean(x.Key), clean(x.Name), strconv.FormatInt(x.Max, 10), strconv.FormatInt(x.Held, 10), strconv.FormatInt(x.Waiting, 10), holder})
	}
	return table(k.Stdout, []string{"KEY", "OF", "MAX", "HELD", "WAITING", "HELD BY"}, rows)
}
