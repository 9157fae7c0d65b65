package door

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/holdfast-run/holdfast/internal/authn"
)

// HeaderNamespace names the namespace of a request. A token's own namespace
// needs no header; another one is refused.
const HeaderNamespace = "Holdfast-Namespace"

// authenticate finds who sends r: by bearer token, by session cookie, or on
// loopback of a development server by being there.
func (d *Door) authenticate(r *http.Request) (authn.Principal, error) {
	token, isBearer, err := bearer(r)
	if err != nil {
		return authn.Principal{}, err
	}
	if !isBearer {
		token = d.Cookie(r, SessionCookie)
		// What a browser sends by itself may be another site's doing.
		if err := d.ownPage(r, token != ""); err != nil {
			return authn.Principal{}, err
		}
	}
	asked := r.Header.Get(HeaderNamespace)
	if asked != "" && !authn.ValidNamespace(asked) {
		return authn.Principal{}, Error(http.StatusBadRequest, CodeBadRequest,
			fmt.Sprintf("%s %q is not a namespace: use a-z, 0-9 and -, at most 63", HeaderNamespace, asked))
	}
	if token == "" {
		if d.cfg.DevPrincipal == nil || !fromLoopback(r) {
			return authn.Principal{}, unauthenticated("this needs a token")
		}
		p := *d.cfg.DevPrincipal
		if asked != "" {
			p.Namespace = asked
		}
		return p, nil
	}
	if isBearer && authn.IsSession(token) {
		return authn.Principal{}, authn.ErrUnknownToken // it counts in a cookie alone
	}
	p, err := d.Verify(r.Context(), token)
	if err != nil {
		return authn.Principal{}, err
	}
	if asked != "" && asked != p.Namespace {
		return authn.Principal{}, Error(http.StatusForbidden, CodeWrongNamespace,
			fmt.Sprintf("the token is for the namespace %s, not %s", p.Namespace, asked))
	}
	return p, nil
}

// Verify finds the principal of a token as requests do: authn.ErrUnknownToken
// when it does not count.
func (d *Door) Verify(ctx context.Context, token string) (authn.Principal, error) {
	if d.cfg.Verifier == nil {
		return authn.Principal{}, authn.ErrUnknownToken
	}
	return d.cfg.Verifier.Verify(ctx, token)
}

func bearer(r *http.Request) (token string, ok bool, err error) {
	h := r.Header.Get("Authorization")
	if h == "" {
		return "", false, nil
	}
	scheme, token, _ := strings.Cut(h, " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", false, unauthenticated("the Authorization header is not a bearer token")
	}
	return token, true, nil
}

// fromLoopback reports whether r was sent from this machine to a name of this
// machine. The host is checked because a page of any site can point its own
// name at 127.0.0.1; forwarded requests count by whom they are forwarded for.
func fromLoopback(r *http.Request) bool {
	if !loopbackHost(r.Host) || !loopbackHost(r.RemoteAddr) {
		return false
	}
	if r.Header.Get("Forwarded") != "" {
		return false
	}
	for _, v := range r.Header.Values("X-Forwarded-For") {
		for part := range strings.SplitSeq(v, ",") {
			if !loopbackHost(strings.TrimSpace(part)) {
				return false
			}
		}
	}
	return true
}

func loopbackHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}
