package pg_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
)

// refusedSession is what a client sees of a server that refuses it with a code.
func refusedSession(t *testing.T, code string) error {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			server := pgproto3.NewBackend(conn, conn)
			if _, err := server.ReceiveStartupMessage(); err == nil {
				server.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: code, Message: "no session"})
				_ = server.Flush() // the client sees whether it came
			}
			_ = conn.Close()
		}
	}()
	_, err = pgx.Connect(t.Context(), "postgres://x@"+l.Addr().String()+"/x?sslmode=disable")
	return err
}

func TestTransient(t *testing.T) {
	t.Parallel()
	code := func(c string) error { return fmt.Errorf("commit: %w", &pgconn.PgError{Code: c}) }
	tests := map[string]struct {
		err  error
		want bool
	}{
		"nothing":                          {nil, false},
		"connection failure":               {code("08006"), true},
		"serialization failure":            {code("40001"), true},
		"deadlock":                         {code("40P01"), true},
		"too many connections":             {code("53300"), true},
		"disk full":                        {code("53100"), true},
		"admin shutdown":                   {code("57P01"), true},
		"statement timeout":                {code("57014"), true},
		"read only after a demotion":       {code("25006"), true},
		"another class 25":                 {code("25001"), false},
		"unique violation":                 {code("23505"), false},
		"bad text":                         {code("22P05"), false},
		"undefined table":                  {code("42P01"), false},
		"wrong password":                   {code("28P01"), false},
		"an internal error of a statement": {code("XX000"), false},
		"no room to begin a session":       {refusedSession(t, "XX000"), true},
		"a session that may not begin":     {refusedSession(t, "28P01"), false},
		"no such database":                 {code("3D000"), false},
		"a code that is none":              {&pgconn.PgError{}, false},
		"end of the line":                  {fmt.Errorf("read: %w", io.EOF), true},
		"half a message":                   {io.ErrUnexpectedEOF, true},
		"refused":                          {&net.OpError{Op: "dial", Err: errors.New("refused")}, true},
		"closed socket":                    {net.ErrClosed, true},
		"a pool that is busy":              {fmt.Errorf("x: %w", pg.ErrBusy), true},
		"a deadline":                       {context.DeadlineExceeded, true},
		"a cancelled caller":               {context.Canceled, false},
		"a cancelled caller on the line":   {fmt.Errorf("%w: %w", net.ErrClosed, context.Canceled), false},
		"no row":                           {pgx.ErrNoRows, false},
		"an error of ours":                 {errors.New("version conflict"), false},
		"a connection that died earlier":   {errors.New("conn closed"), true},
		"an unsafe setting stays refused":  {pg.ErrUnsafe, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := pg.Transient(tc.err); got != tc.want {
				t.Errorf("Transient(%v) = %v, want %v", tc.err, got, tc.want)
			}
		})
	}
}

func TestInTx(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db.Pool, "CREATE SCHEMA desk")
	exec(t, db.Pool, "CREATE TABLE desk.t (id int PRIMARY KEY)")
	put := func(id int, then error) error {
		return pg.InTx(t.Context(), db.Pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "INSERT INTO desk.t VALUES ($1)", id); err != nil {
				return err
			}
			return then
		})
	}
	if err := put(1, nil); err != nil {
		t.Fatal(err)
	}
	mine := errors.New("no")
	if err := put(2, mine); !errors.Is(err, mine) {
		t.Errorf("error = %v, want the function's own", err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = pg.InTx(t.Context(), db.Pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "INSERT INTO desk.t VALUES (3)"); err != nil {
				t.Error(err)
			}
			panic("impossible")
		})
	}()
	if got := text(t, db.Pool, "SELECT string_agg(id::text, ',') FROM desk.t"); got != "1" {
		t.Errorf("rows %s, want only the committed one", got)
	}
	if n := db.Pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections are still taken", n)
	}
}

// The caller's context may end inside the transaction; the connection comes back.
func TestInTx_CancelledRollsBack(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := pg.InTx(ctx, db.Pool, func(tx pgx.Tx) error {
		cancel()
		_, err := tx.Exec(ctx, "SELECT pg_sleep(10)")
		return err
	})
	if !errors.Is(err, context.Canceled) || pg.Transient(err) {
		t.Errorf("error = %v, transient %v", err, pg.Transient(err))
	}
	if got := text(t, db.Pool, "SELECT 'ok'"); got != "ok" {
		t.Error(got)
	}
}

// With every connection taken, a transaction and a single statement alike give up
// after a while and say what is missing; whose time is over first is told that.
func TestCaseC09_EveryWaitForAConnectionEnds(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for range db.Pool.Config().MaxConns {
		c, err := db.Pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release()
	}
	begin := time.Now()
	ways := map[string]func() error{
		"a transaction": func() error { return pg.InTx(t.Context(), db.Pool, func(pgx.Tx) error { return nil }) },
		"a statement":   func() error { _, err := db.Pool.Exec(t.Context(), "SELECT 1"); return err },
		"a query":       func() error { return db.Pool.QueryRow(t.Context(), "SELECT 1").Scan(new(int)) },
	}
	errs := make(chan error, len(ways))
	for name, way := range ways {
		go func() {
			err := way()
			if !errors.Is(err, pg.ErrBusy) || !pg.Transient(err) || !strings.Contains(err.Error(), "--database-max-conns") {
				err = fmt.Errorf("%s: error = %w, want ErrBusy, transient, with what to do", name, err)
			} else {
				err = nil
			}
			errs <- err
		}()
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := db.Pool.Exec(short, "SELECT 1"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, pg.ErrBusy) {
		t.Errorf("error = %v, want the caller's deadline", err)
	}
	for range ways {
		select {
		case err := <-errs:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("something waits for ever")
		}
	}
	if took := time.Since(begin); took < 4*time.Second {
		t.Errorf("gave up after %v already", took)
	}
}

func TestRetry_KilledBackend(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db.Pool, "CREATE SCHEMA desk")
	exec(t, db.Pool, "CREATE TABLE desk.t (id int PRIMARY KEY)")
	work, err := pg.Open(t.Context(), pg.Config{URL: db.URL, AppName: "victim", MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer work.Close()
	var tries atomic.Int32
	err = pg.Retry(t.Context(), func(ctx context.Context) error {
		return pg.InTx(ctx, work, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO desk.t VALUES (1)"); err != nil {
				return err
			}
			if tries.Add(1) <= 3 {
				exec(t, db.Pool, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'victim' AND datname = current_database()")
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, db.Pool, "SELECT count(*)::text FROM desk.t"); got != "1" || tries.Load() != 4 {
		t.Errorf("%s rows after %d tries, want 1 after 4", got, tries.Load())
	}
}

func TestRetry_Ends(t *testing.T) {
	t.Parallel()
	var tries int
	mine := errors.New("version conflict")
	err := pg.Retry(t.Context(), func(context.Context) error { tries++; return mine })
	if !errors.Is(err, mine) || tries != 1 {
		t.Errorf("error %v after %d tries, want the first one", err, tries)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	tries = 0
	err = pg.Retry(ctx, func(context.Context) error { tries++; return io.EOF })
	if !errors.Is(err, io.EOF) || tries < 3 || tries > 12 {
		t.Errorf("error %v after %d tries, want EOF after a few", err, tries)
	}
}

func TestPrepareAll(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	err := pg.PrepareAll(t.Context(), db.Pool, map[string]string{
		"good": "SELECT 1 WHERE $1::int = 2", "bad": "SELECT nothing FROM nowhere", "worse": "SELEKT",
	})
	if err == nil {
		t.Fatal("accepted a table that does not exist")
	}
	for _, want := range []string{"prepare bad", "nowhere", "prepare worse"} {
		if !contains(err, want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
	if contains(err, "good") {
		t.Errorf("error names a good query: %v", err)
	}
	if err := pg.PrepareAll(t.Context(), db.Pool, map[string]string{"good": "SELECT $1::text"}); err != nil {
		t.Error(err)
	}
}
