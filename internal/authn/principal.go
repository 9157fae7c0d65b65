package authn

import "context"

// Principal is who acts: the name of a token or of a person who signed in, in a
// namespace, with a role.
type Principal struct {
	Name      string
	Namespace string
	Role      Role
	Groups    []string // for rules about who may decide
	// TokenID and SessionID say by what it was recognised: by a token, by the cookie
	// of a session, or by one that was begun with a token. Without both it is a
	// development server's own, or a test's.
	TokenID, SessionID string
}

type principalKey struct{}

// NewContext returns ctx carrying p.
func NewContext(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// FromContext returns the principal of the request; ok is false behind a public door.
func FromContext(ctx context.Context) (p Principal, ok bool) {
	p, ok = ctx.Value(principalKey{}).(Principal)
	return p, ok
}

// ValidNamespace reports whether s may name a namespace: 1 to 63 of a-z 0-9 -,
// beginning and ending with a letter or digit.
func ValidNamespace(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-') {
			return false
		}
	}
	return true
}
