package main

import (
	"context"
	"fmt"
	"io"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// List is how much of a list is printed.
type List struct {
	Limit int `default:"50" env:"-" help:"How many at most (${default})."`
}

// listing is how people see a list.
type listing[T any] struct {
	none string // said when there is nothing
	look string // advice when the server knows no such thing
	head []string
	row  func(T) []string
}

// printList reads up to l.Limit items and prints them.
func printList[T any](ctx context.Context, k *kong.Context, o Output, l List, read func(context.Context, client.PageRequest) (client.Page[T], error), show listing[T]) error {
	if err := l.check(); err != nil {
		return err
	}
	page, err := upTo(ctx, l.Limit, read)
	if err != nil {
		return advise(err, show.look)
	}
	if o.JSON {
		return printJSON(k.Stdout, page)
	}
	if len(page.Items) == 0 {
		_, err := fmt.Fprintln(k.Stdout, show.none)
		return err
	}
	rows := make([][]string, 0, len(page.Items))
	for _, item := range page.Items {
		rows = append(rows, show.row(item))
	}
	if err := table(k.Stdout, show.head, rows); err != nil {
		return err
	}
	more(k.Stdout, page.NextCursor, len(page.Items))
	return nil
}

// check refuses limits that mean nothing.
func (l List) check() error {
	if l.Limit < 1 {
		return usage(fmt.Errorf("--limit is %d, want at least 1", l.Limit))
	}
	return nil
}

// more tells people that the list goes on.
func more(w io.Writer, cursor string, n int) {
	if cursor != "" {
		fmt.Fprintf(w, "(the first %d; more with --limit)\n", n)
	}
}

// upTo reads pages until limit items are there or the list ends.
func upTo[T any](ctx context.Context, limit int, page func(context.Context, client.PageRequest) (client.Page[T], error)) (client.Page[T], error) {
	out := client.Page[T]{Items: []T{}}
	for {
		before := out.NextCursor
		p, err := page(ctx, client.PageRequest{Limit: min(limit-len(out.Items), 500), Cursor: before})
		if err != nil {
			return out, err
		}
		out.Items = append(out.Items, p.Items...)
		out.NextCursor = p.NextCursor
		if p.NextCursor == "" || len(out.Items) >= limit || p.NextCursor == before {
			return out, nil
		}
	}
}
