package console

import (
	"context"
	"time"
)

// Session is somebody who is signed in with a browser; the hash of what the cookie
// holds, never the cookie.
type Session struct {
	ID         string
	Hash       []byte
	Namespace  string
	Role       string
	Name       string // the principal that commands and decisions record
	Groups     []string
	Grants     []SessionGrant // what it may be turned into; the first is what it begins as
	TokenID    string         // with what it was begun; empty for a person
	Issuer     string         // of a person
	Subject    string
	UserAgent  string
	CreatedAt  time.Time
	LastSeenAt time.Time     // to a minute
	EndsAt     time.Time     // unless it is used
	ExpiresAt  time.Time     // at the latest
	Lifetime   time.Duration // of one that is added: to ExpiresAt
	Idle       time.Duration // unused for so long it ends
	RevokedAt  time.Time     // zero: not
	RevokedBy  string
}

// SessionGrant is a role in a namespace.
type SessionGrant struct{ Namespace, Role string }

// SessionFilter narrows a list of sessions. Namespace is required.
type SessionFilter struct {
	Namespace string // those that may act in it
	Of        string // id of a session: only those of the same person or token
	After     string
	Limit     int
}

// SessionStore keeps sessions.
type SessionStore interface {
	// AddSession adds s, of which Hash, Grants, Name, Groups, Lifetime, Idle, UserAgent and either TokenID
	// or Issuer and Subject are read. ErrNameTaken when a person would be taken
	// for a token.
	AddSession(ctx context.Context, s Session) (Session, error)
	// FinishSignIn reports whether nobody has finished this sign-in before.
	FinishSignIn(ctx context.Context, state []byte) (first bool, err error)
	// TurnSession makes a session that counts be another of its grants, under another
	// hash; ErrNotFound when it is not there or may not.
	TurnSession(ctx context.Context, id string, hash []byte, to SessionGrant) error
	// Sessions lists sessions that count, by id.
	Sessions(ctx context.Context, f SessionFilter) ([]Session, error)
	// RevokeSession is idempotent; ErrNotFound when it may not act in the namespace, or,
	// with of set, is of somebody else than that session.
	RevokeSession(ctx context.Context, namespace, id, by, of string) (Session, error)
}
