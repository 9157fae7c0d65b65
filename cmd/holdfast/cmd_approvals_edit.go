package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// ApprovalsEditCmd says yes to other arguments than were asked about.
type ApprovalsEditCmd struct {
	Output
	ID      string   `arg:"" help:"Id of the approval, of kind action."`
	Args    string   `env:"-" placeholder:"JSON|@FILE" help:"All of the arguments, as the tool is to get them."`
	Set     []string `env:"-" sep:"none" placeholder:"PATH=VALUE" help:"One field: amount=50, lines.0.price=\"9.90\". VALUE is JSON, or text when it is none. Repeat it for more."`
	Digest  string   `env:"-" placeholder:"DIGEST" help:"Confirms what was shown, and decides."`
	Yes     bool     `env:"-" help:"Show and decide in one go."`
	Comment string   `env:"-" placeholder:"TEXT" help:"Why; the agent reads it. At most 4,000 characters."`
}

// Help implements kong.HelpProvider.
func (*ApprovalsEditCmd) Help() string {
	return `Without --digest it shows what would change and decides nothing; with the digest that it
prints, exactly that is approved. The tool stays what it is, and its schema holds. The agent
is told that a person changed the call, and how.

  holdfast approvals edit 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a-4-0-a4 --set amount=50
  holdfast approvals edit 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a-4-0-a4 --args @refund.json
  holdfast approvals edit 0198c2aa-7d3c-7000-8000-1f2e3d4c5b6a-4-0-a4 --set amount=50 --digest sha256:7c1f...

--json prints {"args", "digest", "changes", "problems"}, or one line as "approve --json".`
}

// Run implements the command.
func (c *ApprovalsEditCmd) Run(ctx context.Context, k *kong.Context, group *ApprovalsCmd) error {
	if (c.Args == "") == (len(c.Set) == 0) {
		return usage(errors.New("say what to change: --set PATH=VALUE, or all of it with --args JSON"))
	}
	args, err := readJSON("--args", c.Args)
	if err != nil {
		return err
	}
	api, err := group.client()
	if err != nil {
		return err
	}
	id := events.ApprovalID(c.ID)
	if args == nil {
		a, err := api.Approval(ctx, id)
		if err != nil {
			return advise(err, lookApprovals)
		}
		if args, err = setFields(a.Args, c.Set); err != nil {
			return usage(err)
		}
	}
	digest := events.Digest(c.Digest)
	if digest == "" {
		p, err := api.PreviewEdit(ctx, id, args)
		if err != nil {
			return advise(err, lookApprovals)
		}
		if len(p.Problems) > 0 {
			var problems []error
			for _, v := range p.Problems {
				problems = append(problems, fmt.Errorf("%s: %s", clean(v.Path), clean(v.Message)))
			}
			return usage(fmt.Errorf("the tool does not take these arguments; nothing was decided: %w", errors.Join(problems...)))
		}
		if digest = p.Digest; !c.Yes || !c.JSON {
			if err := showEdit(k.Stdout, c, p); err != nil || !c.Yes {
				return err
			}
		}
	}
	return decideEach(ctx, k, api, c.JSON, []string{c.ID}, client.Decision{Decision: "approve", Comment: c.Comment, Args: args, Digest: digest})
}

func showEdit(w io.Writer, c *ApprovalsEditCmd, p client.ApprovalEdit) error {
	if c.JSON {
		return printJSON(w, p)
	}
	if err := details(w, "would do", clean(p.Preview), "arguments", pretty(p.Args), "changed", changeLines(p.Changes), "digest", string(p.Digest)); err != nil || c.Yes {
		return err
	}
	_, err := fmt.Fprintf(w, "\nnothing is decided yet; to approve exactly this, add: --digest %s\n", p.Digest)
	return err
}

func changeLines(changes []events.Change) string {
	var lines []string
	for _, c := range changes {
		from, to := "nothing", "nothing"
		if c.From != nil {
			from = short(c.From, 200)
		}
		if c.To != nil {
			to = short(c.To, 200)
		}
		lines = append(lines, clean(c.Path)+": "+from+" → "+to)
	}
	if len(lines) == 0 {
		return "nothing"
	}
	return strings.Join(lines, "\n")
}

// setFields puts values at places of a JSON value; every other byte of it that has
// a meaning stays.
func setFields(args json.RawMessage, sets []string) (json.RawMessage, error) {
	for _, s := range sets {
		path, text, ok := strings.Cut(s, "=")
		if !ok || path == "" {
			return nil, fmt.Errorf("--set %q is not PATH=VALUE", s)
		}
		value := json.RawMessage(text)
		if !json.Valid(value) {
			var err error
			if value, err = events.Marshal(text); err != nil {
				return nil, err
			}
		}
		var err error
		if args, err = setField(args, strings.Split(path, "."), value); err != nil {
			return nil, fmt.Errorf("--set %s: %w", path, err)
		}
	}
	return args, nil
}

func setField(at json.RawMessage, path []string, value json.RawMessage) (json.RawMessage, error) {
	if len(path) == 0 {
		return value, nil
	}
	var list []json.RawMessage
	if json.Unmarshal(at, &list) == nil && list != nil {
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= len(list) {
			return nil, fmt.Errorf("%q is no place of a list of %d", path[0], len(list))
		}
		if list[i], err = setField(list[i], path[1:], value); err != nil {
			return nil, err
		}
		return events.Marshal(list)
	}
	fields := map[string]json.RawMessage{}
	if len(at) > 0 && json.Unmarshal(at, &fields) != nil {
		return nil, fmt.Errorf("%q is inside of what is no object", path[0])
	}
	field, err := setField(fields[path[0]], path[1:], value)
	if err != nil {
		return nil, err
	}
	if fields == nil { // null
		fields = map[string]json.RawMessage{}
	}
	fields[path[0]] = field
	return events.Marshal(fields)
}
