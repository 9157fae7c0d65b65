package authn

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// TokenPrefix begins every token, so that secret scanners can find a leaked one.
const TokenPrefix = "hf_"

// ErrUnknownToken says that a token does not exist, was revoked or has expired.
// Which of these it is, is nobody's business who does not hold a valid one.
var ErrUnknownToken = errors.New("unknown token")

// Verifier finds the principal of a token. It returns ErrUnknownToken for a
// token that does not count, any other error when it could not find out.
// Implementations are safe for concurrent use.
type Verifier interface {
	Verify(ctx context.Context, token string) (Principal, error)
}

// NewToken mints a token: the prefix and 256 random bits. It is shown once and
// never stored. It panics only when the operating system has no randomness.
func NewToken() string {
	var b [32]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(fmt.Sprintf("read random bytes: %v", err))
	}
	return TokenPrefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// HashToken is what is stored and looked up. Tokens are random, so a plain
// SHA-256 cannot be guessed backwards.
func HashToken(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }

// SessionPrefix begins what the cookie of a session holds.
const SessionPrefix = "hfs_"

// NewSession mints what the cookie of a session holds, as NewToken does a token.
func NewSession() string { return SessionPrefix + strings.TrimPrefix(NewToken(), TokenPrefix) }

// IsSession reports whether a token is what a cookie holds. It counts in a cookie
// alone, where the check of origins guards it.
func IsSession(token string) bool { return strings.HasPrefix(token, SessionPrefix) }

// plausible keeps garbage away from the database.
func plausible(token string) bool {
	return (strings.HasPrefix(token, TokenPrefix) || IsSession(token)) && len(token) <= 200
}
