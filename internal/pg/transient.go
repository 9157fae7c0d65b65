package pg

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// readOnly is the state of a write to a server, or in a session, that only reads.
const readOnly = "25006"

// Transient reports whether err is worth a retry: Postgres was away, stopping,
// short of resources or chose this transaction as a victim, or the line broke.
// After a transient error of a commit the transaction may have happened.
// A cancelled context is not transient; a deadline that ran out is.
//
// Source: PostgreSQL manual, appendix A, "Error Codes": classes 08 connection,
// 40 rollback, 53 resources, 57 operator intervention, 25006 read only (a
// server that was demoted). 58 system and XX internal count where no session was begun,
// as when the server's disk is full. 0A000 is feature not supported; in the one form that
// counts here, a migration changed what a prepared statement returns, and the
// next try prepares it anew.
func Transient(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case len(pe.Code) != 5:
			return false
		case pe.Code == readOnly, pe.Code == "0A000" && strings.Contains(pe.Message, "cached plan must not change result type"):
			return true
		}
		switch pe.Code[:2] {
		case "08", "40", "53", "57":
			return true
		case "58", "XX": // a server without room cannot begin a session: "could not write init file"
			_, connecting := errors.AsType[*pgconn.ConnectError](err)
			return connecting
		}
		return false
	}
	if errors.Is(err, ErrBusy) || errors.Is(err, ErrQueueFull) || errors.Is(err, ErrGroupStopped) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		pgconn.SafeToRetry(err) {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true // the server gave no reason of its own: it was not reached
	}
	// pgconn says this without a type when a connection died earlier.
	return strings.Contains(err.Error(), "conn closed")
}

const (
	retryFirst = 20 * time.Millisecond
	retryMost  = time.Second
)

// Retry calls fn until it returns nil or an error that is not Transient, or
// until ctx ends; then it returns fn's last error. It waits 20 ms, doubling to
// 1 s, each time between half and the whole of it.
//
// fn must be harmless to repeat after a lost reply.
func Retry(ctx context.Context, fn func(context.Context) error) error {
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		err := fn(ctx)
		if err == nil || !Transient(err) {
			return err
		}
		t := time.NewTimer(jitter(wait))
		select {
		case <-ctx.Done():
			t.Stop()
			return err
		case <-t.C:
		}
	}
}

// jitter is between half of d and the whole of it.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2) }
