package console

import "time"

// Token is a bearer token as the catalog keeps it: the hash, never the token.
type Token struct {
	ID        string
	Hash      []byte
	Namespace string
	Role      string
	Name      string // the principal that commands and decisions record
	Groups    []string
	CreatedAt time.Time
	CreatedBy string
	ExpiresAt time.Time // zero: never
	RevokedAt time.Time // zero: not
	RevokedBy string
}
