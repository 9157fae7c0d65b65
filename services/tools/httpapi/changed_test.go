package httpapi_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// What a run changed is one query, at the door and over the views as
// docs/ledger.md has it: the run, the runs below it, and nobody else's.
func TestEffects_WhatARunChanged(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	run := func(parent events.RunID) events.RunID {
		t.Helper()
		id := events.NewRunID()
		if _, err := l.db.Pool.Exec(t.Context(), `
			INSERT INTO runner.runs (run_id, namespace, kind, name, digest, status, seq, input, labels, trigger, principal, parent_run_id, accepted_at)
			VALUES ($1, 'default', 'agent', 'a', 'sha256:x', 'waiting', 2, '{}', '{}', '{}', 'test', nullif($2, ''), clock_timestamp())`,
			string(id), string(parent)); err != nil {
			t.Fatal(err)
		}
		return id
	}
	acts := func(id events.RunID, key string, state string) string {
		t.Helper()
		c := tools.Call{ID: events.NewCallID(id, 1, 0), RunID: id, Namespace: "default", Tool: "pay", ToolDigest: "sha256:x", Pool: "default",
			Args: []byte(`{}`), ArgsDigest: events.DigestOf([]byte(`{}`)), MintedKey: key, Key: key}
		a := tools.Attempt{CallID: c.ID, EffectID: tools.EffectID("default", "pay", key), ID: "t-" + key, Epoch: 1}
		if _, err := l.store.Begin(t.Context(), tools.Begin{Call: c, EffectID: a.EffectID, AttemptID: a.ID, Worker: "w", Lease: time.Second}); err != nil {
			t.Fatal(err)
		}
		con := tools.Conclusion{State: state}
		if state == tools.EffectUnknown {
			con.InDoubt = tools.DoubtAsk
		}
		if _, mine, err := l.store.Finish(t.Context(), tools.Finish{Attempt: a, Worker: "w", Acted: true, Conclusion: con, Result: []byte(`1`)}); err != nil || !mine {
			t.Fatal(mine, err)
		}
		return a.EffectID
	}
	top := run("")
	child := run(top)
	want := []string{acts(top, "top", tools.EffectSucceeded), acts(child, "child", tools.EffectUnknown), acts(run(child), "grandchild", tools.EffectSucceeded)}
	acts(run(""), "other", tools.EffectSucceeded)
	refused := acts(run(child), "refused", tools.EffectFailed)

	text, err := os.ReadFile("../../../docs/ledger.md")
	if err != nil {
		t.Fatal(err)
	}
	_, query, _ := strings.Cut(string(text), "```sql\nWITH RECURSIVE tree")
	query, _, ok := strings.Cut(query, "```")
	if !ok || strings.Count(query, ":'run'") != 1 {
		t.Fatal("docs/ledger.md has no query over the views")
	}
	rows, err := l.db.Open(t, "holdfast_console").Query(t.Context(), "WITH RECURSIVE tree"+strings.ReplaceAll(query, ":'run'", "$1"), string(top))
	if err != nil {
		t.Fatal(err)
	}
	type changed struct {
		ID, Tool, Key, State string
		Args                 string
		Result               *string
		ActedAt              *time.Time
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[changed])
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range found {
		got = append(got, c.ID)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the query says %v, want %v", got, want)
	}
	page := l.send("GET", "/v1/effects?run="+string(top), "")
	for _, id := range append(want, refused) { // the door lists what failed as well
		if !strings.Contains(page.body, id) {
			t.Errorf("the door does not list %s", id)
		}
	}
	if n := strings.Count(page.body, `"effect_id"`); n != 4 {
		t.Errorf("the door lists %d effects, want 4: %s", n, page.body)
	}
}
