package oidc

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/holdfast-run/holdfast/internal/config"
)

const (
	// askFor bounds everything that one step asks of the provider.
	askFor = 15 * time.Second
	// maxAnswer bounds each of its answers.
	maxAnswer = 1 << 20
	// knownFor is how long what the provider says about itself is believed.
	knownFor = time.Hour
	// maxQuery bounds a code and a state that come back.
	maxQuery = 4096
)

// ErrAway says that the provider could not be asked, or gave no usable answer.
var ErrAway = errors.New("the sign-in provider does not answer as it should")

// RefusedError is a sign-in that does not count. Reason is a sentence for the person.
type RefusedError struct {
	Reason string
	Err    error // for the log; may be nil
}

func (e *RefusedError) Error() string {
	if e.Err != nil {
		return e.Reason + ": " + e.Err.Error()
	}
	return e.Reason
}

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// Config says where people sign in and what is believed of them.
type Config struct {
	Issuer      string
	ClientID    string
	Secret      config.Secret    // empty: a public client, which PKCE protects alone
	RedirectURL string           // the only place that a code may come back to
	Scopes      []string         // openid is added
	GroupsClaim string           // a member of the ID token or of userinfo; dots lead into objects
	NameClaim   string           // NameEmail or NameSubject
	Skew        time.Duration    // how far the clocks may differ
	Client      *http.Client     // follows no redirects; its transport and its time are bounded here
	Now         func() time.Time // nil: time.Now
}

// Provider is an OpenID provider. It is safe for concurrent use.
type Provider struct {
	config Config
	client *http.Client

	mu    sync.Mutex
	known *known
}

// known is what the provider says about itself.
type known struct {
	provider *oidc.Provider
	oauth    oauth2.Config
	until    time.Time
}

// New returns a provider; it asks nothing yet.
func New(c Config) *Provider {
	if c.Now == nil {
		c.Now = time.Now
	}
	client := *c.Client
	client.Transport, client.Timeout = bounded{client.Transport}, askFor
	return &Provider{config: c, client: &client}
}

// bounded cuts answers that are too long.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, maxAnswer), res.Body}
	return res, nil
}

// Flow is what a sign-in needs until the person comes back. It is secret.
type Flow struct{ State, Nonce, Verifier string }

// Start begins a sign-in: where to send the person, and what to remember.
// ErrAway when the provider cannot be asked.
func (p *Provider) Start(ctx context.Context) (Flow, string, error) {
	k, err := p.discover(ctx)
	if err != nil {
		return Flow{}, "", err
	}
	f := Flow{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	return f, k.oauth.AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), nil
}

// Returned reports whether a person came back from the sign-in f. It asks nobody,
// so that a caller can see to it that each sign-in is finished once.
func (p *Provider) Returned(f Flow, q url.Values) error {
	if f.State == "" || len(q.Get("state")) > maxQuery || subtle.ConstantTimeCompare([]byte(f.State), []byte(q.Get("state"))) != 1 {
		return &RefusedError{Reason: "This sign-in was not begun in this browser, or it was begun again in another tab. Begin anew."}
	}
	if iss := q.Get("iss"); iss != "" && iss != p.config.Issuer { // RFC 9207
		return &RefusedError{Reason: "The answer comes from another sign-in provider. Begin anew."}
	}
	switch code := q.Get("error"); {
	case code == "access_denied":
		return &RefusedError{Reason: "The sign-in provider did not let you in, or you turned back. Begin anew when you want to."}
	case code != "":
		return &RefusedError{Reason: "The sign-in provider refused the sign-in. An administrator finds why in its log.", Err: fmt.Errorf("the provider answered %.100q", code)}
	case q.Get("code") == "" || len(q.Get("code")) > maxQuery:
		return &RefusedError{Reason: "The sign-in provider sent nothing to sign in with. Begin anew."}
	}
	return nil
}

// Finish exchanges the code of a person who came back and returns who they are.
// Everything that the ID token says is checked first. It returns a *RefusedError or
// ErrAway.
func (p *Provider) Finish(ctx context.Context, f Flow, q url.Values) (Person, error) {
	if err := p.Returned(f, q); err != nil {
		return Person{}, err
	}
	k, err := p.discover(ctx)
	if err != nil {
		return Person{}, err
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.client), askFor)
	defer cancel()
	token, err := k.oauth.Exchange(ctx, q.Get("code"), oauth2.VerifierOption(f.Verifier))
	if err != nil {
		if said, ok := errors.AsType[*oauth2.RetrieveError](err); ok && said.ErrorCode != "" {
			// What it says may repeat what was sent: only the code is kept.
			return Person{}, &RefusedError{Reason: "The sign-in provider does not accept the sign-in: it is too old, or was used before. Begin anew.", Err: fmt.Errorf("the token endpoint answered %.100q", said.ErrorCode)}
		}
		return Person{}, fmt.Errorf("%w: exchange the code: %s", ErrAway, withoutBody(err))
	}
	raw, _ := token.Extra("id_token").(string)
	if raw == "" {
		return Person{}, &RefusedError{Reason: "The sign-in provider did not say who you are. An administrator looks at its configuration.", Err: errors.New("no id_token; is the scope openid allowed?")}
	}
	id, err := k.provider.VerifierContext(ctx, &oidc.Config{ClientID: p.config.ClientID, Now: func() time.Time { return p.config.Now().Add(-p.config.Skew) }}).Verify(ctx, raw)
	if err != nil {
		return Person{}, notAccepted(err)
	}
	if err := p.check(id, f, token.AccessToken); err != nil {
		return Person{}, notAccepted(err)
	}
	claims := map[string]any{}
	if err := id.Claims(&claims); err != nil {
		return Person{}, notAccepted(err)
	}
	if err := p.complete(ctx, k, token, id.Subject, claims); err != nil {
		return Person{}, err
	}
	return p.config.person(id.Issuer, id.Subject, claims)
}

func notAccepted(err error) error {
	return &RefusedError{Reason: "What the sign-in provider says about you is not valid here. Begin anew; when it stays so, an administrator looks at the log.", Err: err}
}

// check is what the library leaves to its callers.
func (p *Provider) check(id *oidc.IDToken, f Flow, access string) error {
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(f.Nonce)) != 1 {
		return errors.New("the nonce is another sign-in's")
	}
	if id.IssuedAt.After(p.config.Now().Add(p.config.Skew)) {
		return fmt.Errorf("issued at %s, which is ahead of this clock", id.IssuedAt.UTC().Format(time.RFC3339))
	}
	var azp struct {
		AuthorizedParty string `json:"azp"`
	}
	if err := id.Claims(&azp); err != nil {
		return err
	}
	if azp.AuthorizedParty != "" && azp.AuthorizedParty != p.config.ClientID || azp.AuthorizedParty == "" && len(id.Audience) > 1 {
		return errors.New("it was made for another program (azp)")
	}
	if id.AccessTokenHash != "" {
		return id.VerifyAccessToken(access)
	}
	return nil
}

// complete adds what the ID token leaves to userinfo.
func (p *Provider) complete(ctx context.Context, k *known, token *oauth2.Token, subject string, claims map[string]any) error {
	_, groups := lookup(claims, p.config.GroupsClaim)
	_, email := claims["email"]
	if groups && (email || p.config.NameClaim != NameEmail) || k.provider.UserInfoEndpoint() == "" {
		return nil
	}
	info, err := k.provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return fmt.Errorf("%w: ask for userinfo: %s", ErrAway, withoutBody(err))
	}
	if info.Subject != subject {
		return notAccepted(errors.New("userinfo is about somebody else"))
	}
	more := map[string]any{}
	if err := info.Claims(&more); err != nil {
		return notAccepted(err)
	}
	for name, value := range more {
		// An address and whether it is verified belong together.
		if _, has := claims[name]; !has && (name != "email_verified" || !email) {
			claims[name] = value
		}
	}
	return nil
}

// discover asks the provider about itself, once an hour.
func (p *Provider) discover(ctx context.Context) (*known, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known != nil && p.config.Now().Before(p.known.until) {
		return p.known, nil
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.client), askFor)
	defer cancel()
	found, err := oidc.NewProvider(ctx, p.config.Issuer)
	if err != nil {
		if p.known != nil {
			return p.known, nil // what it said before most likely still holds
		}
		return nil, fmt.Errorf("%w: %s", ErrAway, withoutBody(err))
	}
	var says struct {
		Auth []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := found.Claims(&says); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAway, err)
	}
	endpoint := found.Endpoint()
	endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if p.config.Secret == "" || len(says.Auth) > 0 && !slices.Contains(says.Auth, "client_secret_basic") {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	scopes := p.config.Scopes
	if !slices.Contains(scopes, oidc.ScopeOpenID) {
		scopes = append([]string{oidc.ScopeOpenID}, scopes...)
	}
	p.known = &known{provider: found, until: p.config.Now().Add(knownFor), oauth: oauth2.Config{
		ClientID: p.config.ClientID, ClientSecret: p.config.Secret.Reveal(), Endpoint: endpoint, RedirectURL: p.config.RedirectURL, Scopes: scopes,
	}}
	return p.known, nil
}

// withoutBody is an error's first line, cut: libraries put whole answers behind it.
func withoutBody(err error) string {
	text := err.Error()
	for i, c := range text {
		if c == '\n' || i > 300 {
			return text[:i]
		}
	}
	return text
}
