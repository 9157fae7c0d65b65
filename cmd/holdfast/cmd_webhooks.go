package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// WebhooksCmd groups webhooks.
type WebhooksCmd struct {
	Remote

	Test WebhooksTestCmd `cmd:"" help:"Send a webhook a signed request and show what its sender would see."`
}

// Help implements kong.HelpProvider.
func (*WebhooksCmd) Help() string {
	return `  holdfast webhooks test github --body @push.json --header X-GitHub-Event=push
  holdfast deliveries list --webhook github
` + exitHelp
}

// WebhooksTestCmd sends a test request.
type WebhooksTestCmd struct {
	Output
	Name        string            `arg:"" help:"Name of the webhook."`
	Body        string            `env:"-" required:"" placeholder:"TEXT|@FILE" help:"The request's body: text, @file, or @- for standard input."`
	ContentType string            `env:"-" placeholder:"TYPE" help:"Content type; application/json when absent."`
	Header      map[string]string `env:"-" placeholder:"NAME=VALUE" help:"Header to add; repeat for more."`
	Query       map[string]string `env:"-" placeholder:"NAME=VALUE" help:"Query parameter to add; repeat for more."`
}

// Help implements kong.HelpProvider.
func (*WebhooksTestCmd) Help() string {
	return `The server signs the body with the webhook's first secret, as the sender does, and
takes the request through the same door: what is accepted starts a run.

  holdfast webhooks test orders --body @order.json
  holdfast webhooks test github --body '{"zen":"hi"}' --header X-GitHub-Event=ping

--json prints {"status", "headers", "body", "run_id", "delivery_id"}. Exit code 1:
the answer is not a success.`
}

// Run implements the command.
func (c *WebhooksTestCmd) Run(ctx context.Context, k *kong.Context, group *WebhooksCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	body, err := readText("--body", c.Body)
	if err != nil {
		return err
	}
	t, err := api.TestWebhook(ctx, c.Name, client.HookTest{Body: body, ContentType: c.ContentType, Headers: c.Header, Query: c.Query})
	if err != nil {
		return advise(err, "holdfast webhooks test --help")
	}
	if err := c.print(k.Stdout, t); err != nil {
		return err
	}
	if t.Status/100 != 2 {
		return fmt.Errorf("the sender would see a %d", t.Status)
	}
	return nil
}

func (c *WebhooksTestCmd) print(w io.Writer, t client.HookTested) error {
	if c.JSON {
		return printJSON(w, t)
	}
	fmt.Fprintf(w, "HTTP %d\n", t.Status)
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		fmt.Fprintf(w, "%s: %s\n", clean(name), clean(t.Headers[name]))
	}
	fmt.Fprintf(w, "\n%s\n", clean(strings.TrimSuffix(t.Body, "\n")))
	if t.RunID != "" {
		fmt.Fprintf(w, "\nfollow it: holdfast runs watch %s\n", t.RunID)
	}
	return nil
}

// readText reads a flag that is text, @file or @- for standard input.
func readText(flag, value string) (string, error) {
	file, ok := strings.CutPrefix(value, "@")
	if !ok {
		return value, nil
	}
	var raw []byte
	var err error
	if file == "-" {
		raw, err = io.ReadAll(os.Stdin)
	} else {
		raw, err = os.ReadFile(file)
	}
	if err != nil {
		return "", usage(fmt.Errorf("%s: %w", flag, err))
	}
	return string(raw), nil
}
