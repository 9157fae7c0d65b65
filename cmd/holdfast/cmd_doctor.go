package main

import (
	"context"
	"fmt"
	"time"

	"github.com/alecthomas/kong"
)

// DoctorCmd says what is wrong and what to do about it.
type DoctorCmd struct {
	Remote
	Output
}

// Help implements kong.HelpProvider.
func (*DoctorCmd) Help() string {
	return `Looks at the runs, effects, commands and questions of the namespace, at the
processes and at the streams, and says what to do next. It changes nothing.

  holdfast doctor
  holdfast doctor --json | jq -r '.findings[] | select(.severity=="problem") | .code'

The exit code is 1 when there is a problem; warnings alone leave it 0.
` + exitHelp
}

// Run implements the command.
func (c *DoctorCmd) Run(ctx context.Context, k *kong.Context) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	found, err := api.Doctor(ctx)
	if err != nil {
		return advise(err, "")
	}
	problems := 0
	for _, f := range found.Findings {
		if f.Severity == "problem" {
			problems++
		}
		if c.JSON {
			continue
		}
		since := ""
		if f.Since != nil {
			since = fmt.Sprintf(" (since %s)", f.Since.UTC().Format(time.DateTime)+"Z")
		}
		fmt.Fprintf(k.Stdout, "%-8s %s%s\n         %s\n", f.Severity, clean(f.What), since, clean(f.Next))
	}
	switch {
	case c.JSON:
		if err := printJSON(k.Stdout, found); err != nil {
			return err
		}
	case len(found.Findings) == 0:
		fmt.Fprintln(k.Stdout, "nothing is wrong")
	}
	if problems > 0 {
		return fmt.Errorf("%d problems", problems)
	}
	return nil
}
