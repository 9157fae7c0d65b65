package main

import (
	"context"
	"fmt"
	"os"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// ArtifactsCmd groups what tool calls left behind.
type ArtifactsCmd struct {
	Remote

	List ArtifactsListCmd `cmd:"" help:"List what tool calls left behind."`
	Get  ArtifactsGetCmd  `cmd:"" help:"Download the bytes of one artifact."`
}

// Help implements kong.HelpProvider.
func (*ArtifactsCmd) Help() string {
	return `What a model is not shown whole is kept: pictures, long answers, what is not text.

  holdfast artifacts list --run RUN
  holdfast artifacts get ARTIFACT -o answer.json
` + exitHelp
}

const lookArtifacts = "holdfast artifacts list"

// ArtifactsListCmd lists artifacts.
type ArtifactsListCmd struct {
	Output
	List
	OfRun string `name:"run" env:"-" placeholder:"RUN" help:"Only of this run."`
}

// Help implements kong.HelpProvider.
func (*ArtifactsListCmd) Help() string {
	return `  holdfast artifacts list --run RUN
  holdfast artifacts list --limit 500 --json

--json prints {"items": [{"artifact_id", "run_id", "call_id", "tool", "name",
"content_type", "bytes", "digest", "uri", ...}], "next_cursor"}.`
}

// Run implements the command.
func (c *ArtifactsListCmd) Run(ctx context.Context, k *kong.Context, group *ArtifactsCmd) error {
	api, err := group.client()
	if err != nil {
		return err
	}
	read := func(ctx context.Context, p client.PageRequest) (client.Page[client.Artifact], error) {
		return api.Artifacts(ctx, events.RunID(c.OfRun), p)
	}
	return printList(ctx, k, c.Output, c.List, read, listing[client.Artifact]{
		none: "no artifacts",
		head: []string{"ARTIFACT", "TOOL", "TYPE", "BYTES", "NAME", "RUN", "CREATED"},
		row: func(a client.Artifact) []string {
			return []string{a.ArtifactID, a.Tool, cut(a.ContentType, 40), artifactSize(a), cut(artifactName(a), 60), string(a.RunID), stamp(a.CreatedAt)}
		},
	})
}

func artifactSize(a client.Artifact) string {
	switch {
	case a.URI != "":
		return "elsewhere"
	case a.Truncated:
		return fmt.Sprintf("%d, cut off", a.Bytes)
	}
	return fmt.Sprint(a.Bytes)
}

func artifactName(a client.Artifact) string {
	if a.URI != "" {
		return joinWords(a.Kind, a.Title, a.URI)
	}
	return a.Name
}

// ArtifactsGetCmd downloads one.
type ArtifactsGetCmd struct {
	ID  string `arg:"" help:"Id of the artifact."`
	Out string `short:"o" name:"output" env:"-" placeholder:"FILE" help:"Write to this file, which must not exist; - is standard output."`
}

// Help implements kong.HelpProvider.
func (*ArtifactsGetCmd) Help() string {
	return `  holdfast artifacts get ARTIFACT -o picture.png
  holdfast artifacts get ARTIFACT | jq .

The bytes come from outside: without -o they go to a pipe, never to a terminal.`
}

// Run implements the command.
func (c *ArtifactsGetCmd) Run(ctx context.Context, k *kong.Context, group *ArtifactsCmd) error {
	if out, ok := k.Stdout.(*os.File); ok && c.Out == "" && isTerminal(out) {
		return fmt.Errorf("an artifact is bytes from outside; give it a file with -o FILE, or -o - to see it here")
	}
	api, err := group.client()
	if err != nil {
		return err
	}
	data, err := api.ArtifactBytes(ctx, c.ID)
	if err != nil {
		return advise(err, lookArtifacts)
	}
	if c.Out == "" || c.Out == "-" {
		_, err = k.Stdout.Write(data)
		return err
	}
	f, err := os.OpenFile(c.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err != nil {
		_ = f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(k.Stdout, "%d bytes written to %s\n", len(data), clean(c.Out))
	return err
}
