package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// journal prints a run's journal. It holds one page of it at a time, and of each row what
// its line shows.
func (c *RunsGetCmd) journal(ctx context.Context, w io.Writer, api *client.Client, id events.RunID) error {
	var lines [][]string
	items := jsonItems{w: w}
	for next := (client.PageRequest{Limit: 200}); ; {
		page, err := api.Journal(ctx, id, next)
		if err != nil {
			return advise(err, lookRuns)
		}
		for _, e := range page.Items {
			if !c.JSON {
				lines = append(lines, []string{fmt.Sprint(e.Seq), stamp(e.At), e.Kind, e.Status, e.Worker, short(e.Data, 100)})
			} else if err := items.add(e); err != nil {
				return err
			}
		}
		if next.Cursor = page.NextCursor; next.Cursor == "" {
			break
		}
	}
	if c.JSON {
		return items.end()
	}
	return table(w, []string{"SEQ", "AT", "FACT", "STATUS", "WORKER", "DATA"}, lines)
}

// jsonItems writes what printJSON does of {"items": [...]}, one item after the other.
type jsonItems struct {
	w io.Writer
	n int
}

func (j *jsonItems) add(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("    ", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	before := ",\n    "
	if j.n++; j.n == 1 {
		before = "{\n  \"items\": [\n    "
	}
	_, err := fmt.Fprintf(j.w, "%s%s", before, bytes.TrimRight(b.Bytes(), "\n"))
	return err
}

func (j *jsonItems) end() error {
	text := "\n  ]\n}\n"
	if j.n == 0 {
		text = "{\n  \"items\": []\n}\n"
	}
	_, err := io.WriteString(j.w, text)
	return err
}
