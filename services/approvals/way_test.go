package approvals_test

import (
	"errors"
	"fmt"
	"html"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// allDoors are the doors at which a person decides.
var allDoors = []string{approvals.DoorAPI, approvals.DoorLink, approvals.DoorSlack}

// way is how one person decides one request at one door. What it needs is fetched when
// it is made, as a browser or a message holds it: it may be used when all has changed.
type way struct {
	b         *bench
	o         *outside
	a         events.AskApproval
	door, who string
	address   string // of the link
	page      string // as it was opened
	reply     string // where Slack answers the person
}

var ways atomic.Int64

// way opens one: who is ann or ben, and the channel is that of reviewers.
func (b *bench) way(o *outside, a events.AskApproval, door, who string) *way {
	b.t.Helper()
	w := &way{b: b, o: o, a: a, door: door, who: who, reply: fmt.Sprintf("/actions/%d-%s", ways.Add(1), who)}
	if door == approvals.DoorLink {
		w.address = b.link(a, who)
		_, _, w.page = b.page(http.MethodGet, w.address, nil)
	}
	return w
}

// decide tries and returns the status and what the person is told there. Slack tells
// people later, see told.
func (w *way) decide(decision, comment string) (code int, text string) {
	w.b.t.Helper()
	switch w.door {
	case approvals.DoorAPI:
		got, err := w.b.as(w.who).Decide(w.b.t.Context(), w.a.ApprovalID, client.Decision{Decision: decision, Comment: comment, Digest: w.a.Digest})
		if e, ok := errors.AsType[*client.Error](err); ok {
			return e.Status, e.Detail
		}
		if err != nil {
			w.b.t.Error(err)
			return 0, err.Error()
		}
		return http.StatusOK, got.State + " by " + got.DecidedBy + " at " + stampOf(got.DecidedAt) + " through " + got.Door
	case approvals.DoorLink:
		f := form(w.page, decision)
		f.Set("comment", comment)
		code, _, page := w.b.page(http.MethodPost, w.address, f)
		return code, html.UnescapeString(page)
	}
	user := map[string]string{"ann": "U0ANN", "ben": "U0BEN"}[w.who]
	return w.b.fromSlack(clickAnswered(w.o.URL+w.reply, w.a, user, decision, comment), time.Now()), ""
}

// told waits for what Slack tells the person of a click that took no effect.
func (w *way) told() string {
	w.b.t.Helper()
	eventually(w.b.t, w.who+" is told in Slack", func() bool { return len(w.o.at(w.reply)) > 0 })
	return decoded[struct{ Text string }](w.b.t, w.o.at(w.reply)[0].body).Text
}

// refused wants that a decision takes no effect and that the person is told so in words.
func (w *way) refused(decision, comment string, code int, words ...string) {
	w.b.t.Helper()
	got, text := w.decide(decision, comment)
	if w.door == approvals.DoorSlack && code < 500 {
		code = http.StatusOK // Slack shows people nothing of another status
		text = w.told()
	}
	if got != code {
		w.b.t.Errorf("%s: %d %.300s, want %d", w.door, got, text, code)
	}
	for _, word := range words {
		if !strings.Contains(text, word) {
			w.b.t.Errorf("%s tells %s %.400q, want %q in it", w.door, w.who, text, word)
		}
	}
}

func stampOf(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// asOwner connects as who owns the database.
func asOwner(t testing.TB, database config.Secret) *pgxpool.Pool {
	t.Helper()
	pool, err := pg.Open(t.Context(), pg.Config{URL: database, MaxConns: 2, AppName: "approvals-test-owner"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// reviewed is a bench whose requests are told in the Slack channel reviewers.
func reviewed(t testing.TB, b *bench) (*bench, *outside) {
	t.Helper()
	o := newOutside(t)
	b.reviewers(o)
	return b, o
}
