// Package blob keeps bytes that are too large for a message, in Postgres, and
// reads them by the reference that the message carries. Rows are only added.
// They are deleted with the delivery or the run whose scope they have.
package blob

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// ErrNotFound says that there are no such bytes: their scope was deleted.
var ErrNotFound = errors.New("blob not found")

// DB is a pool, or the transaction that must keep the bytes together with what
// names them.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Ref is the reference to data in scope. It writes nothing.
func Ref(scope string, data []byte) events.BlobRef {
	return events.BlobRef{Scope: scope, Digest: events.DigestOf(data), Bytes: int64(len(data))}
}

const insertBlob = `INSERT INTO blob.blobs (scope, digest, data) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`

// Put keeps data under ref, which must be its own. A repeat changes nothing.
// What names the reference may be sent once Put, or db's transaction, is
// committed.
func Put(ctx context.Context, db DB, ref events.BlobRef, data []byte) error {
	if _, err := db.Exec(ctx, insertBlob, ref.Scope, string(ref.Digest), data); err != nil {
		return fmt.Errorf("keep %d bytes of %s: %w", len(data), ref.Scope, err)
	}
	return nil
}

const selectBlob = `SELECT data FROM blob.blobs WHERE scope = $1 AND digest = $2`

// Get reads what ref names and checks that it is that. ErrNotFound when it is
// gone.
func Get(ctx context.Context, db DB, ref events.BlobRef) ([]byte, error) {
	var data []byte
	err := db.QueryRow(ctx, selectBlob, ref.Scope, string(ref.Digest)).Scan(&data)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("%d bytes of %s: %w", ref.Bytes, ref.Scope, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read %d bytes of %s: %w", ref.Bytes, ref.Scope, err)
	}
	if got := events.DigestOf(data); got != ref.Digest {
		return nil, fmt.Errorf("%d bytes of %s: they are %s and should be %s", len(data), ref.Scope, got, ref.Digest)
	}
	return data, nil
}
