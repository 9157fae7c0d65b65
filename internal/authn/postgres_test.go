package authn_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/pgtest"
)

func addToken(t *testing.T, db *pgxpool.Pool, expires *time.Duration) string {
	t.Helper()
	token := authn.NewToken()
	hash := authn.HashToken(token)
	if _, err := db.Exec(t.Context(), `INSERT INTO catalog.tokens (id, hash, namespace, role, name, created_by, expires_at, groups)
		VALUES (gen_random_uuid()::text, $1, 'team', 'operator', 'maria', 'test', clock_timestamp() + $2::interval, '{finance,leads}')`, hash[:], expires); err != nil {
		t.Fatal(err)
	}
	return token
}

func TestPostgres_EveryRoleMayVerify(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	token := addToken(t, db.Pool, nil)
	for _, role := range []string{"holdfast_trigger", "holdfast_tools", "holdfast_approvals", "holdfast_console"} {
		v := authn.NewPostgres(db.Open(t, role))
		got, err := v.Verify(t.Context(), token)
		if want := (authn.Principal{Name: "maria", Namespace: "team", Role: authn.Operator, Groups: []string{"finance", "leads"}, TokenID: got.TokenID}); got.TokenID == "" || err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("as %s: %+v, %v", role, got, err)
		}
		for _, bad := range []string{"", "hf_", authn.NewToken(), "maria", token + "x", "x" + token} {
			if _, err := v.Verify(t.Context(), bad); !errors.Is(err, authn.ErrUnknownToken) {
				t.Errorf("as %s: %q is %v", role, bad, err)
			}
		}
	}
}

func TestPostgres_RevokedAndExpiredSoonStopCounting(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	brief := 700 * time.Millisecond
	revoked, expiring := addToken(t, db.Pool, nil), addToken(t, db.Pool, &brief)
	v := authn.NewPostgres(db.Pool)
	for _, token := range []string{revoked, expiring} {
		if _, err := v.Verify(t.Context(), token); err != nil {
			t.Fatal(err)
		}
	}
	hash := authn.HashToken(revoked)
	if _, err := db.Pool.Exec(t.Context(), `UPDATE catalog.tokens SET revoked_at = clock_timestamp() WHERE hash = $1`, hash[:]); err != nil {
		t.Fatal(err)
	}
	since := time.Now()
	for _, token := range []string{expiring, revoked} {
		for {
			_, err := v.Verify(t.Context(), token)
			if errors.Is(err, authn.ErrUnknownToken) {
				break
			}
			if err != nil || time.Since(since) > 4*time.Second {
				t.Fatalf("after %s: %v", time.Since(since), err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}
