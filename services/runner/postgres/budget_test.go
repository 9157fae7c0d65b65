package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
)

// Two workers book the same call, and one of them gets the claim. What the other gives
// back is not what the call is counted by, nor is a row that comes before the request.
func TestReserve_TheBookingIsThatOfTheClaim(t *testing.T) {
	db, s, st := created(t)
	release(t, s, st)
	docs, err := spec.Parse("t.yaml", []byte("apiVersion: holdfast/v1\nkind: Budget\nmetadata: {name: night}\nspec: {limit: 100}\n"))
	if err != nil {
		t.Fatal(err)
	}
	epoch, err := s.Claim(t.Context(), st.RunID, st.Seq, "winner", "m")
	if err != nil {
		t.Fatal(err)
	}
	booked := runner.Reservation{RunID: st.RunID, Namespace: "default", Seq: st.Seq, Epoch: epoch, Pools: []runner.Pool{{Name: "night", Budget: docs[0].Budget}}, Most: runner.Amounts{Tokens: 60}}
	for range 2 { // each of them
		if r, err := s.Reserve(t.Context(), booked); err != nil || !r.OK {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	check := func(what string, wantReserved, wantUsed int64) {
		t.Helper()
		var reserved, used int64
		if err := db.Pool.QueryRow(t.Context(), `SELECT reserved, used FROM runner.pools WHERE pool = 'night'`).Scan(&reserved, &used); err != nil || reserved != wantReserved || used != wantUsed {
			t.Errorf("%d is reserved and %d used after %s (%v), want %d and %d", reserved, used, what, err, wantReserved, wantUsed)
		}
	}
	if err := s.Unreserve(t.Context(), booked, "loser"); err != nil {
		t.Fatal(err)
	}
	check("the loser gave it back", 60, 0)
	// A message came between the claim and the request: the call is that of a later row.
	later := booked
	later.Seq++
	if err := pg.InTx(t.Context(), s.pool, func(tx pgx.Tx) error {
		return settle(t.Context(), tx, runner.Settlement{Reservation: later, Used: runner.Amounts{Tokens: 15}})
	}); err != nil {
		t.Fatal(err)
	}
	check("the call", 0, 15)
	if r, err := s.Reserve(t.Context(), booked); err != nil || !r.OK {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := s.Unreserve(t.Context(), later, "winner"); err != nil {
		t.Fatal(err)
	}
	check("the winner gave it back", 0, 15)
}
