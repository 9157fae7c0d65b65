package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

const (
	// pageJournal is how many rows of the journal a page shows, and shownData how much of each.
	pageJournal = 60
	shownData   = 3000
)

// journalView is the part of a journal around a row, the newest first.
type journalView struct {
	Journal     []journalRow
	First, Last int64 // of the rows that are shown
	// Earlier and Later are rows in the middle of the parts beside this one.
	Earlier, Later, Around int64
}

type journalRow struct {
	Seq                 int64
	At                  time.Time
	Kind, Doc           string
	Cause, Worker, Data string
	What                string // in a few words
	Cut                 bool
}

// journalOf reads the part around a row, or the newest one.
func (a *api) journalOf(ctx context.Context, p *runPage, at int64) error {
	run := p.Run
	after := windowAfter(run.Seq, at, pageJournal)
	rows, err := a.console.Said(ctx, run.Namespace, run.ID, after, pageJournal)
	if err != nil {
		return err
	}
	v := &p.journalView
	v.First, v.Last, v.Around = after+1, after+int64(len(rows)), at
	if len(rows) > 0 {
		v.First, v.Last = rows[0].Seq, rows[len(rows)-1].Seq
	}
	if after > 0 {
		v.Earlier = max(after-pageJournal/2, 1)
	}
	if v.Last < run.Seq && len(rows) > 0 {
		v.Later = v.Last + pageJournal/2
	}
	a.chatOf(ctx, p, rows)
	for _, e := range rows {
		said := pretty(e.Data)
		cut := e.Elided > 0 || len(said) > shownData
		if cut {
			bytes := max(e.Elided, int64(len(e.Data)))
			said = strings.ToValidUTF8(said[:min(len(said), shownData)], "") + fmt.Sprintf("\n… %d bytes in all", bytes)
		}
		v.Journal = append(v.Journal, journalRow{Seq: e.Seq, At: e.At, Kind: e.Kind, Doc: docOf(e.Kind), Cause: e.Cause, Worker: e.Worker, Data: said, Cut: cut, What: console.RowWords(e)})
	}
	slices.Reverse(v.Journal)
	return nil
}

// docOf says what a kind of row means.
func docOf(kind string) string {
	for _, k := range events.Facts() {
		if k.Kind == kind {
			return k.Doc
		}
	}
	return ""
}

// rowPage is a row of a journal as it is, as text that no browser takes for anything else.
func (a *api) rowPage(w http.ResponseWriter, r *http.Request) error {
	id, err := runIn(r)
	if err != nil {
		return err
	}
	p, _ := authn.FromContext(r.Context())
	if _, _, err := a.console.Head(r.Context(), p.Namespace, id); err != nil {
		return problem(err, "run %s", id)
	}
	seq, err := strconv.ParseInt(r.PathValue("seq"), 10, 64)
	if err != nil || seq < 1 {
		return door.NotFound("%q is not the number of a row", r.PathValue("seq"))
	}
	rows, err := a.console.Events(r.Context(), p.Namespace, id, seq-1, 1)
	if err != nil {
		return err
	}
	if len(rows) == 0 || rows[0].Seq != seq {
		return door.NotFound("the journal of run %s has no row %d", id, seq)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(pretty(rows[0].Data) + "\n")) // the client is gone when this fails
	return nil
}
